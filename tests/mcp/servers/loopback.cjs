// Preloaded into a Node server that would listen on every interface: it listens on loopback, and
// says on which port.
const net = require("node:net");

const listen = net.Server.prototype.listen;

net.Server.prototype.listen = function (port, ...rest) {
  this.once("listening", () => console.error(`LISTENING ${this.address().port}`));
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, rest.at(-1));
};
