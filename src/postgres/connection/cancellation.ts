import pg from 'pg';

/** Properties that the types of `pg` lack. */
type Session = pg.ClientBase & {
  readonly processID: number | null;
  readonly secretKey: number | null;
  readonly host: string;
  readonly port: number;
  readonly ssl: boolean | object;
  readonly sslNegotiation: string;
};
type CancelSocket = pg.Connection & {
  connect(portOrPath: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processId: number, secretKey: number): void;
};

// Postgres ignores a request between two statements, so the request is repeated.
const repeatAfterMs = 250;

/**
 * Sends cancel requests for the connection's statement until the returned function is called. A
 * cancel request has its own socket and the session's secret: it needs no free connection and no
 * privilege, passes poolers, and affects no other session. There is no response, so the caller
 * waits for the end of the statement.
 */
export function cancelRepeatedly(connection: pg.ClientBase): () => void {
  const session = connection as Session;
  let socket: CancelSocket;
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  const send = () => {
    socket = sendCancelRequest(session);
    socket.on('end', () => {
      if (!isStopped) timer = setTimeout(send, repeatAfterMs);
    });
  };
  send();
  return () => {
    isStopped = true;
    clearTimeout(timer);
    socket.stream.destroy();
  };
}

function sendCancelRequest(session: Session): CancelSocket {
  const { processID, secretKey, host, port, ssl, sslNegotiation } = session;
  const socket = new pg.Connection({ ssl, sslNegotiation } as object) as CancelSocket;
  // If the connection fails, the statement runs to its end.
  socket.on('error', () => {});
  socket.on('connect', () => {
    if (ssl && sslNegotiation !== 'direct') socket.requestSsl();
  });
  socket.on(ssl ? 'sslconnect' : 'connect', () => {
    if (processID !== null && secretKey !== null) socket.cancel(processID, secretKey);
  });
  if (host.startsWith('/')) socket.connect(`${host}/.s.PGSQL.${port}`);
  else socket.connect(port, host);
  return socket;
}
