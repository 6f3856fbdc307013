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

# Column (a number, or NF) of a list of the agent.
_ringctl_column() {
  local column=$1
  shift
  "${_ringctl_program}" "$@" "${_ringctl_address[@]}" --timeout 1 2>/dev/null |
    awk -v column="$column" 'NR > 1 { cell = column == "NF" ? $NF : $column; if (cell != "-") print cell }' |
    sort -u
}

# Words that may follow the flag $1; fails where it takes none that are known.
_ringctl_values() {
  case $1 in
    --switch) _ringctl_column 1 switch list ;;
    --port) _ringctl_column 1 port list "${_ringctl_switch[@]}" ;;
    --pod | --set-pod) _ringctl_column NF port list "${_ringctl_switch[@]}" ;;
    --output) echo table json ;;
    --kind) echo dynamic static ;;
    --mode) echo bridge ;;
    --netns) compgen -f -- "${2:-/run/netns/}" ;;
    *) return 1 ;;
  esac
}

# Whether the flag $1 stands alone; the others take the word after them.
_ringctl_is_switch_flag() {
  case $1 in
    -h | --help | --version | --tap | --validate-only | --vlan-aware | --vlan-unaware) return 0 ;;
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
      'switch show' | 'switch update' | 'switch delete') ((positionals)) || _ringctl_column 1 switch list ;;
      'port show' | 'port update' | 'port delete') ((positionals)) || _ringctl_column 1 port list ;;
      'vlan show')
        if ((!positionals)) && ((${#_ringctl_switch[@]})); then
          _ringctl_column 1 vlan list "${_ringctl_switch[@]}"
        fi
        ;;
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
  if [[ $previous == --netns ]]; then
    compopt -o filenames 2>/dev/null
  fi
}

complete -F _ringctl ringctl
