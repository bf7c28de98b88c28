import { once } from 'node:events';
import pg from 'pg';

/** The time in which a pool does not connect again after Postgres had no free connection. */
const pauseMs = 1_000;

/** The time in which a server closes connections that the pool has ended. */
const closeTimeoutMs = 1_000;

type Callback = (
  error: Error | undefined,
  connection: pg.PoolClient | undefined,
  release: pg.PoolClient['release'],
) => void;

/**
 * A pool whose callers share its open connections while Postgres refuses further ones: a caller
 * then waits for a connection, instead of failing. Without an open connection, it fails.
 */
export class SharingPool extends pg.Pool {
  readonly #max = this.options.max;
  #open = 0;
  #pause: NodeJS.Timeout | undefined;

  constructor(config: pg.PoolConfig) {
    super(config);
    this.on('connect', () => {
      this.#open += 1;
    });
    this.on('remove', () => {
      this.#open -= 1;
    });
  }

  override connect(): Promise<pg.PoolClient>;
  override connect(callback: Callback): void;
  override connect(callback?: Callback): Promise<pg.PoolClient> | undefined {
    const connecting = this.#connect();
    if (callback === undefined) return connecting;
    connecting.then(
      (connection) => callback(undefined, connection, connection.release),
      (error) => callback(error, undefined, () => {}),
    );
    return undefined;
  }

  /**
   * Also waits until the server has closed the connections. If it stopped before, it would report an error on each of
   * them.
   */
  override async end(): Promise<void> {
    await super.end();
    const signal = AbortSignal.timeout(closeTimeoutMs);
    while (this.#open > 0 && !signal.aborted) {
      await once(this, 'remove', { signal }).catch(() => {});
    }
  }

  async #connect(): Promise<pg.PoolClient> {
    for (;;) {
      try {
        return await super.connect();
      } catch (error) {
        if (!isOutOfConnections(error) || this.#open === 0) throw error;
        this.#connectLater();
      }
    }
  }

  #connectLater(): void {
    this.options.max = this.#open;
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => {
      this.options.max = this.#max;
    }, pauseMs).unref();
  }
}

const isOutOfConnections = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code === '53300';
