import { BIGINT, type DuckDBConnection, DuckDBScalarFunction, VARCHAR } from '@duckdb/node-api';
import { encodeId } from '../domain/public-id.ts';
import type { PurchaseColumnKind } from '../domain/purchase.ts';
import { writeCoupons } from '../resources/purchase-table.ts';

/** The functions of `registerFunctions` that show stored values. Other kinds are shown as stored. */
export const functionOf: Partial<Readonly<Record<PurchaseColumnKind, string>>> = {
  purchase_id: 'purchase_id',
  customer_id: 'customer_id',
  coupons: 'shown_coupons',
};

/**
 * Makes functions of the API callable from SQL, so that an export shows what a list shows.
 * SQL that computes ids was measured: it takes as much processor time.
 */
export function registerFunctions(connection: DuckDBConnection): void {
  const register = <Value>(
    name: string,
    type: typeof BIGINT | typeof VARCHAR,
    show: (value: Value) => string,
  ) =>
    connection.registerScalarFunction(
      DuckDBScalarFunction.create({
        name,
        parameterTypes: [type],
        returnType: VARCHAR,
        mainFunction: (_info, input, output) => {
          const values = input.getColumnVector(0);
          for (let row = 0; row < input.rowCount; row += 1) {
            const value = values.getItem(row) as Value | null;
            output.setItem(row, value === null ? null : show(value));
          }
          output.flush();
        },
      }),
    );
  register('purchase_id', BIGINT, (id: bigint) => encodeId('purchase', id));
  register('customer_id', BIGINT, (id: bigint) => encodeId('customer', id));
  register('shown_coupons', VARCHAR, writeCoupons);
}
