// A client that shares nothing with the agent but the .proto files: creates a port, lists the FDB, reads an error's details.
//
//   node client.js SOCKET PROTO_ROOT SWITCH NETNS
//
// Prints one JSON object. Needs @grpc/grpc-js and @grpc/proto-loader (NODE_PATH).
'use strict';

const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [socket, root, switchName, netns] = process.argv.slice(2);
const files = ['switch', 'port', 'fdb', 'agent'].map((name) => `ringswitch/v1/${name}.proto`);
const options = {keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true, includeDirs: [root]};
const api = grpc.loadPackageDefinition(loader.loadSync(files, options)).ringswitch.v1;
const details = loader.loadSync(['google/rpc/status.proto', 'google/rpc/error_details.proto'], options);

function client(service) {
  return new api[service](`unix:${socket}`, grpc.credentials.createInsecure());
}

function call(stub, method, request) {
  return new Promise((resolve, reject) => {
    const deadline = new Date(Date.now() + 5000);
    stub[method](request, {deadline}, (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

// The typed details travel in the trailer grpc-status-details-bin as a google.rpc.Status.
function detailsOf(error) {
  const found = {};
  for (const packed of error.metadata.get('grpc-status-details-bin')) {
    const status = details['google.rpc.Status'].type;
    for (const any of decode(status, packed).details) {
      const name = any.type_url.split('/').pop();
      found[name] = decode(details[name].type, any.value);
    }
  }
  return found;
}

// The loader keeps message types as descriptors only; protobufjs, which it is made of, decodes by them.
function decode(type, bytes) {
  const protobuf = require('protobufjs');
  const tree = protobuf.loadSync([`${root}/google/rpc/status.proto`, `${root}/google/rpc/error_details.proto`]);
  const name = type.name;
  return tree.lookupType(`google.rpc.${name}`).toObject(tree.lookupType(`google.rpc.${name}`).decode(bytes), {defaults: true});
}

async function main() {
  const ports = client('PortService');
  const fdb = client('FdbService');
  const port = {name: 'node-port', switch_name: switchName, tap: {netns, ifname: 'eth0'}, mac_address: '02:00:00:00:0c:01'};
  const created = await call(ports, 'CreatePort', {port});
  await call(fdb, 'CreateFdbEntry', {
    entry: {switch_name: switchName, mac_address: '02:00:00:00:0c:02', port_name: 'node-port'},
  });
  const listed = await call(fdb, 'ListFdbEntries', {switch_name: switchName});
  let failure = null;
  try {
    await call(ports, 'CreatePort', {port: {...port, name: 'bad', mtu: 1}});
  } catch (error) {
    failure = {code: error.code, message: error.details, details: detailsOf(error)};
  }
  process.stdout.write(JSON.stringify({created: created.port, entries: listed.entries, failure}) + '\n');
  ports.close();
  fdb.close();
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
