// A web server that answers every request with the same text on port 8080. Connections stay open.
import { Buffer, WasiResponse } from "wasi_http";
import { WasiTcpServer } from "wasi_net";

async function serve(connection) {
  const buffer = new Buffer();
  for (;;) {
    const data = await connection.read();
    if (data == undefined || data.byteLength == 0) {
      return;
    }
    buffer.append(data);
    if (buffer.parseRequest() != undefined) {
      const response = new WasiResponse();
      response.version = "HTTP/1.1";
      response.headers = { "Content-Type": "text/plain" };
      connection.write(response.encode("hello\n"));
      buffer.clear();
    }
  }
}

async function listen() {
  const server = new WasiTcpServer(8080);
  for (;;) {
    serve(await server.accept()).catch((error) => print(error));
  }
}

listen();
