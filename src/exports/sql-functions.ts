import {
  BIGINT,
  type DuckDBConnection,
  DuckDBScalarFunction,
  type DuckDBType,
  VARCHAR,
} from '@duckdb/node-api';
import { localTimeWriter } from '../domain/local-time.ts';
import type { PurchaseColumnKind } from '../domain/purchase.ts';
import { textSerializers } from '../resources/purchases/purchase-table.ts';

/** The SQL function that formats stored values of a kind; null if they are exported as stored. */
export const functionOf = (kind: PurchaseColumnKind): string | null =>
  kind in textSerializers ? `text_of_${kind}` : null;

/** The SQL function that formats microseconds as local time. */
export const localTimeFunction = 'local_time';

/**
 * Makes functions of the API callable from SQL, so that an export shows what a list shows.
 * SQL that computes ids was measured: it takes as much processor time.
 */
export function registerFunctions(connection: DuckDBConnection, timeZone = 'UTC'): void {
  const register = (name: string, type: DuckDBType, serialize: (value: never) => string) =>
    connection.registerScalarFunction(
      DuckDBScalarFunction.create({
        name,
        parameterTypes: [type],
        returnType: VARCHAR,
        mainFunction: (_info, input, output) => {
          const values = input.getColumnVector(0);
          for (let row = 0; row < input.rowCount; row += 1) {
            const value = values.getItem(row);
            output.setItem(row, value === null ? null : serialize(value as never));
          }
          output.flush();
        },
      }),
    );
  for (const [kind, serialize] of Object.entries(textSerializers)) {
    register(`text_of_${kind}`, kind === 'coupons' ? VARCHAR : BIGINT, serialize);
  }
  register(localTimeFunction, BIGINT, localTimeWriter(timeZone));
}
