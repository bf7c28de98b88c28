import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Select } from '../components/controls.tsx';
import { problemAt } from '../components/failures.tsx';
import { useMedia } from '../components/media.ts';
import { Problem } from '../components/problem.tsx';
import { texts } from '../language/language.ts';
import { browserTimeZone, isDay, zoneName } from '../view/calendar.ts';
import { type Days, daysOf, type PeriodName, periodNames } from '../view/period.ts';
import { useDashboard } from './dashboard-state.ts';

export function Periods() {
  const { state, days, change } = useDashboard();
  // A custom period begins with the days that are shown.
  const choose = (period: PeriodName) =>
    change(period === 'custom' ? { period, ...(daysOf(state) ?? days ?? {}) } : { period });
  const isNarrow = useMedia('(width < 900px)');
  if (isNarrow) {
    return (
      <label class="period" for="period">
        <span class="visually-hidden">{texts.controls.period}</span>
        <Select
          id="period"
          value={state.period}
          options={periodNames.map((value) => ({ value, label: texts.periods[value] }))}
          onSelect={(name) => choose(name as PeriodName)}
        />
      </label>
    );
  }
  return (
    <fieldset class="segmented">
      <legend class="visually-hidden">{texts.controls.period}</legend>
      {periodNames.map((name) => (
        <label key={name}>
          <input
            type="radio"
            name="period"
            value={name}
            checked={name === state.period}
            onChange={() => choose(name)}
          />
          <span>{texts.periods[name]}</span>
        </label>
      ))}
    </fieldset>
  );
}

export function CustomDates() {
  const { state, problems, change } = useDashboard();
  /** Days in the controls that are no period. */
  const [reversed, setReversed] = useState<Days | null>(null);
  const from = useRef<HTMLInputElement>(null);
  const to = useRef<HTMLInputElement>(null);
  useEffect(() => setReversed(null), [state]);
  const read = () => {
    const days = { from: from.current?.value ?? '', to: to.current?.value ?? '' };
    // An unfinished date has an empty value.
    if (!isDay(days.from) || !isDay(days.to)) return;
    const isReversed = days.to < days.from;
    setReversed(isReversed ? days : null);
    if (!isReversed) change(days);
  };
  useLayoutEffect(() => {
    const days = reversed ?? daysOf(state);
    const show = ({ current: control }: typeof from, day = '') => {
      // A new value would end the typing of a date.
      if (control !== null && control !== document.activeElement) control.value = day;
    };
    show(from, days?.from);
    show(to, days?.to);
  }, [state, reversed]);
  const control = { type: 'date', onChange: read, 'aria-invalid': reversed !== null } as const;
  return (
    <>
      <div class="dates" hidden={state.period !== 'custom'}>
        <label>
          {texts.controls.from} <input id="from" ref={from} {...control} />
        </label>
        <label>
          {texts.controls.to} <input id="to" ref={to} {...control} />
        </label>
      </div>
      <Problem
        id="period-problem"
        text={reversed === null ? problemAt('period', problems) : texts.controls.reversed}
      />
    </>
  );
}

const timeZones = new Set(['UTC', browserTimeZone(), ...Intl.supportedValuesOf('timeZone')]);

export function Settings() {
  const {
    state: { timezone },
    isAutomatic,
    refreshByItself,
    change,
  } = useDashboard();
  const close = ({ currentTarget, relatedTarget }: FocusEvent) => {
    const details = currentTarget as HTMLDetailsElement;
    if (!details.contains(relatedTarget as Node | null)) details.open = false;
  };
  const zones = timeZones.has(timezone) ? [...timeZones] : [timezone, ...timeZones];
  return (
    <details class="settings" onFocusOut={close}>
      <summary>{texts.controls.settings}</summary>
      <div class="floating" tabIndex={-1}>
        <label for="time-zone">
          {texts.controls.timeZone}{' '}
          <Select
            id="time-zone"
            value={timezone}
            options={zones.map((value) => ({ value, label: zoneName(value) }))}
            onSelect={(timezone) => change({ timezone })}
          />
        </label>
        <label class="inline" for="automatic">
          <input
            type="checkbox"
            id="automatic"
            checked={isAutomatic}
            onChange={({ currentTarget }) => refreshByItself(currentTarget.checked)}
          />
          <span>{texts.freshness.automatic}</span>
        </label>
      </div>
    </details>
  );
}
