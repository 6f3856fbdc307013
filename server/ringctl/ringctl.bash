# Completion for ringctl: source this file, or install it as /usr/share/bash-completion/completions/ringctl.
#
# Nouns, verbs and flags are read from ringctl's own help, so that they never differ from what it takes; names of
# switches, ports and pods are asked of the agent, quietly and with a short wait.

# Commands or flags of the command given as arguments: _ringctl_help commands|flags WORD...
_ringctl_help() {
  local what=$1
  shift
  "${_ringctl_program}" "$@" --help 2>/dev/null | awk -v what="$what" '
    /^[A-Z][A-Za-z ]*:$/ { in_commands = ($0 == "Subcommands:"); next }
    what == "commands" && in_commands && /^  [a-z]/ { print $1 }
    what == "flags" && /^  -/ {
      n = split($1, names, ",")
      for (i = 1; i <= n; i++) if (names[i] ~ /^--/) print names[i]
    }'
}

# Column, by its title, of a list of the agent.
_ringctl_column() {
  local title=$1
  shift
  "${_ringctl_program}" "$@" "${_ringctl_address[@]}" --timeout 1 2>/dev/null |
    awk -v title="$title" '
      NR == 1 { for (i = 1; i <= NF; i++) if ($i == title) column = i; next }
      column && $column != "-" { print $column }' |
    sort -u
}

# Words that may follow the flag $1; fails where it takes none that are known.
_ringctl_values() {
  case $1 in
    --switch) _ringctl_column NAME switch list ;;
    --port) _ringctl_column NAME port list "${_ringctl_switch[@]}" ;;
    --pod | --set-pod) _ringctl_column POD port list "${_ringctl_switch[@]}" ;;
    --output) echo table json ;;
    --direction) echo receive transmit ;;
    --write) compgen -f -- "${2:-}" ;;
    --kind) echo dynamic static ;;
    --mode) echo bridge ;;
    --netns) compgen -f -- "${2:-/run/netns/}" ;;
    --from) compgen -f -- "${2:-}" ;;
    --netdev) ls /sys/class/net ;;
    --host-stack) echo drop keep ;;
    --learning | --flood-* | --isolated | --hairpin | --locked | --ra-guard | --dhcp-guard | --vlan-counters) echo on off ;;
    --bpdu-guard) echo on off 30s 5m ;;
    --confirm-within) echo 60s 5m ;;
    --storm-*) echo off 1000fps 10Mbit 1000fps,10Mbit ;;
    --receive-rate | --transmit-rate) echo off 10Mbit 100Mbit 1Gbit ;;
    --source-guard) echo mac address mac,address off ;;
    --flap-guard) echo off 5 5:60s ;;
    --ageing-time) echo 300s 5m never ;;
    *) return 1 ;;
  esac
}

# Whether the flag $1 stands alone; the others take the word after them.
_ringctl_is_switch_flag() {
  case $1 in
    -h | --help | --version | --drops | --text | --tap | --veth | --software-offload | --up | --down) return 0 ;;
    --replace | --validate-only | --vlan-aware | --vlan-unaware) return 0 ;;
  esac
  return 1
}

# What may stand where the cursor is, by the variables of _ringctl.
_ringctl_candidates() {
  if [[ $previous == --* ]] && ! _ringctl_is_switch_flag "$previous"; then
    _ringctl_values "$previous" "$current"
  elif [[ $current == -* ]]; then
    _ringctl_help flags "${commands[@]}"
  else
    case "${commands[*]}" in
      'switch show' | 'switch update' | 'switch delete') ((positionals)) || _ringctl_column NAME switch list ;;
      'port show' | 'port update' | 'port confirm' | 'port delete') ((positionals)) || _ringctl_column NAME port list ;;
      'vlan show')
        if ((!positionals)) && ((${#_ringctl_switch[@]})); then
          _ringctl_column VID vlan list "${_ringctl_switch[@]}"
        fi
        ;;
      watch) echo switches ports fdb ;;
      *) _ringctl_help commands "${commands[@]}" ;;
    esac
  fi
}

_ringctl() {
  local _ringctl_program=${1:-ringctl}
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local -a commands=() _ringctl_address=() _ringctl_switch=()
  local index word positionals=0 candidates='' colon_cut=''

  # Readline cuts words at ':'; names of ports and addresses hold some, so they are put together again.
  local line=${COMP_LINE:0:COMP_POINT}
  local -a words
  read -r -a words <<<"$line"
  if [[ $line == *[[:space:]] ]]; then
    words+=('')
  fi
  current=${words[${#words[@]} - 1]}
  previous=${words[${#words[@]} - 2]}
  if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
    colon_cut=${current%"${current##*:}"}
  fi

  for ((index = 1; index < ${#words[@]} - 1; index++)); do
    word=${words[index]}
    if [[ $word == --* ]]; then
      case $word in
        --address) _ringctl_address=(--address "${words[index + 1]}") ;;
        --switch) _ringctl_switch=(--switch "${words[index + 1]}") ;;
      esac
      if [[ $word != *=* ]] && ! _ringctl_is_switch_flag "$word"; then
        ((index++))
      fi
    elif ((${#commands[@]} == 0)) || [[ "${commands[*]}" =~ ^(switch|port|vlan|fdb)$ ]]; then
      commands+=("$word")
    else
      ((positionals++))
    fi
  done

  candidates=$(_ringctl_candidates)

  # Not compgen -W, which would expand what the words hold.
  COMPREPLY=()
  local -a list
  read -r -d '' -a list <<<"$candidates" || true  # false at the end of the words
  for word in "${list[@]}"; do
    if [[ $word == "$current"* ]]; then
      COMPREPLY+=("${word#"$colon_cut"}")
    fi
  done
  if [[ $previous == --netns || $previous == --write || $previous == --from ]]; then
    compopt -o filenames 2>/dev/null
  fi
}

complete -F _ringctl ringctl
