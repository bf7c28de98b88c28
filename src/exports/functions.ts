import { BIGINT, type DuckDBConnection, DuckDBScalarFunction, VARCHAR } from '@duckdb/node-api';
import type { PurchaseColumnKind } from '../domain/purchase.ts';
import { textSerializers } from '../resources/purchases/purchase-table.ts';

/** The SQL function that formats stored values of a kind; null if they are exported as stored. */
export const functionOf = (kind: PurchaseColumnKind): string | null =>
  kind in textSerializers ? `text_of_${kind}` : null;

/**
 * Makes functions of the API callable from SQL, so that an export shows what a list shows.
 * SQL that computes ids was measured: it takes as much processor time.
 */
export function registerFunctions(connection: DuckDBConnection): void {
  for (const [kind, serialize] of Object.entries(textSerializers)) {
    connection.registerScalarFunction(
      DuckDBScalarFunction.create({
        name: `text_of_${kind}`,
        parameterTypes: [kind === 'coupons' ? VARCHAR : BIGINT],
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
  }
}
