import type { ComponentChildren } from 'preact';
import { ActionButton } from '../components/controls.tsx';
import { problemAt } from '../components/failures.tsx';
import { Problem } from '../components/problem.tsx';
import { texts } from '../language/language.ts';
import { type Part, useDashboard } from './dashboard-state.ts';
import { isCancelled, savePanel } from './download.ts';

type PanelProperties = {
  readonly kind: 'series' | 'ranking' | 'customer_types' | 'customers' | 'cohorts' | 'purchases';
  readonly part: Part<unknown> | undefined;
  readonly title: ComponentChildren;
  /** Text of the button that downloads what the panel shows. */
  readonly csv?: string;
  readonly controls?: ComponentChildren;
  readonly children: ComponentChildren;
};

export function Panel({ kind, part, title, csv = 'CSV', controls, children }: PanelProperties) {
  const { requests, state, view, isBusy, failures, fail } = useDashboard();
  const id = `${kind}-title`;
  const download = () =>
    savePanel(kind, requests[kind], state.timezone).catch((error) => {
      if (!isCancelled(error)) fail(error, download);
    });
  return (
    <section class="panel" aria-labelledby={id} aria-busy={isBusy && part?.view !== view}>
      <div class={`panel-head ${kind}-head`}>
        <h2 id={id} tabIndex={-1}>
          {title}
        </h2>
        {controls}
        <ActionButton
          class="quiet"
          id={`download-${kind}`}
          data-download={kind}
          aria-labelledby={`download-${kind} ${id}`}
          run={download}
        >
          {csv}
        </ActionButton>
      </div>
      <Problem text={problemAt(kind, failures)} />
      {children}
    </section>
  );
}

/** Instead of a part of the dashboard whose request failed. */
export const NotLoaded = () => <p class="empty">{texts.problems.notLoaded}</p>;
