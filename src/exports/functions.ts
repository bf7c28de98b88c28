import { BIGINT, type DuckDBConnection, DuckDBScalarFunction, VARCHAR } from '@duckdb/node-api';
import { encodeId } from '../domain/public-id.ts';
import type { PurchaseColumnKind } from '../domain/purchase.ts';
import { writeCoupons } from '../resources/purchase-table.ts';

type Function = {
  readonly name: string;
  readonly type: typeof BIGINT | typeof VARCHAR;
  show(value: never): string;
};

/** The SQL functions that show stored values, by kind. Other kinds are shown as stored. */
export const functions: Partial<Readonly<Record<PurchaseColumnKind, Function>>> = {
  purchase_id: {
    name: 'purchase_id',
    type: BIGINT,
    show: (id: bigint) => encodeId('purchase', id),
  },
  customer_id: {
    name: 'customer_id',
    type: BIGINT,
    show: (id: bigint) => encodeId('customer', id),
  },
  coupons: { name: 'coupons_json', type: VARCHAR, show: writeCoupons },
};

/**
 * Makes functions of the API callable from SQL, so that an export shows what a list shows.
 * SQL that computes ids was measured: it takes as much processor time.
 */
export function registerFunctions(connection: DuckDBConnection): void {
  for (const { name, type, show } of Object.values(functions)) {
    connection.registerScalarFunction(
      DuckDBScalarFunction.create({
        name,
        parameterTypes: [type],
        returnType: VARCHAR,
        mainFunction: (_info, input, output) => {
          const values = input.getColumnVector(0);
          for (let row = 0; row < input.rowCount; row += 1) {
            const value = values.getItem(row);
            output.setItem(row, value === null ? null : show(value as never));
          }
          output.flush();
        },
      }),
    );
  }
}
