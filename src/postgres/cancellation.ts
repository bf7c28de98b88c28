import pg from 'pg';

/** What `pg` has and its types leave out. */
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

// A request that arrives between two statements is ignored: it is repeated.
const repeatAfterMs = 250;

/**
 * Asks the server to cancel what the connection is running, until the returned
 * function is called. The request goes over a socket of its own, as the protocol
 * has it: it needs no free connection and no right, finds its way through poolers,
 * and carries the session's secret, so that it can meet no other session. Whether
 * it is heard is not known; the caller waits for its statement to end.
 */
export function keepCancelling(connection: pg.ClientBase): () => void {
  const session = connection as Session;
  let socket: CancelSocket;
  let waiting: NodeJS.Timeout | undefined;
  let isOver = false;
  const ask = () => {
    socket = requestCancel(session);
    socket.on('end', () => {
      if (!isOver) waiting = setTimeout(ask, repeatAfterMs);
    });
  };
  ask();
  return () => {
    isOver = true;
    clearTimeout(waiting);
    socket.stream.destroy();
  };
}

function requestCancel(session: Session): CancelSocket {
  const { processID, secretKey, host, port, ssl, sslNegotiation } = session;
  const socket = new pg.Connection({ ssl, sslNegotiation } as object) as CancelSocket;
  // Where it cannot be asked, the statement runs to its end.
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
