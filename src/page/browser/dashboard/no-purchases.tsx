import { useEffect, useState } from 'preact/hooks';
import { readProblem } from '../api/readiness.ts';
import { Code } from '../components/code.tsx';
import { Marked } from '../components/marked.tsx';
import { formatTime } from '../display/format.ts';
import { texts } from '../language/language.ts';
import { useDashboard } from './dashboard-state.ts';

const oldMs = 300_000;

/** Instead of the chart, if the organization has no purchase at all: how orders come, and whether they can. */
export function NoPurchases() {
  return (
    <div class="first-purchase">
      <h3>{texts.empty.noPurchases}</h3>
      <p>{texts.empty.introduction}</p>
      <ul>
        {texts.empty.ways.map((way) => (
          <li key={way}>
            <Marked text={way} />
          </li>
        ))}
      </ul>
      <WorkerState />
      <FirstPurchase />
    </div>
  );
}

/** Whether orders would arrive: by the instant of the data, and by what the service says of itself. */
function WorkerState() {
  const { parts, view } = useDashboard();
  const totals = parts.totals?.value;
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => void readProblem().then(setProblem), [view]);
  if (!totals?.asOf) return null;
  const { instant, ageMs } = totals.asOf;
  const time = formatTime(instant, totals.report.timezone);
  const isOld = ageMs > oldMs;
  return (
    <div class={isOld || problem ? 'notice' : 'worker'} id="worker" role="status">
      <p>
        <Marked text={isOld ? texts.empty.stopped(time) : texts.empty.running(time)} />
      </p>
      {problem && (
        <p>
          {texts.empty.notReady} <code lang="en">{problem}</code>
        </p>
      )}
    </div>
  );
}

function FirstPurchase() {
  const name = useDashboard().organization.replaceAll("'", "''");
  const statement = `with new_customer as (
  insert into customers (organization_id, name, email)
  select id, 'Ana Souza', 'ana@example.com' from organizations where name = '${name}'
  returning id, organization_id)
insert into purchases (organization_id, customer_id, purchase_value_in_cents, currency, payment_status)
select organization_id, id, 12990, 'BRL', 'paid' from new_customer;`;
  return (
    <details>
      <summary>{texts.empty.writeFirst}</summary>
      <Code text={statement} />
    </details>
  );
}
