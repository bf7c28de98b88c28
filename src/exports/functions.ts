import { BIGINT, type DuckDBConnection, DuckDBScalarFunction, VARCHAR } from '@duckdb/node-api';
import { encodeId } from '../domain/public-id.ts';
import type { PurchaseColumnKind } from '../domain/purchase.ts';
import { writeCoupons } from '../resources/purchase-table.ts';

type ExportFunction = { readonly name: string } & (
  | { readonly type: typeof BIGINT; format(value: bigint): string }
  | { readonly type: typeof VARCHAR; format(value: string): string }
);

/** The SQL functions that format stored values, by kind. Other kinds are exported as stored. */
export const functions: Partial<Readonly<Record<PurchaseColumnKind, ExportFunction>>> = {
  purchase_id: {
    name: 'purchase_id',
    type: BIGINT,
    format: (id: bigint) => encodeId('purchase', id),
  },
  customer_id: {
    name: 'customer_id',
    type: BIGINT,
    format: (id: bigint) => encodeId('customer', id),
  },
  coupons: { name: 'coupons_json', type: VARCHAR, format: writeCoupons },
};

/**
 * Makes functions of the API callable from SQL, so that an export shows what a list shows.
 * SQL that computes ids was measured: it takes as much processor time.
 */
export function registerFunctions(connection: DuckDBConnection): void {
  for (const { name, type, format } of Object.values(functions)) {
    connection.registerScalarFunction(
      DuckDBScalarFunction.create({
        name,
        parameterTypes: [type],
        returnType: VARCHAR,
        mainFunction: (_info, input, output) => {
          const values = input.getColumnVector(0);
          for (let row = 0; row < input.rowCount; row += 1) {
            const value = values.getItem(row);
            output.setItem(row, value === null ? null : format(value as never));
          }
          output.flush();
        },
      }),
    );
  }
}
