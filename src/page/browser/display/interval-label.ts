import { beginsWeekOnMonday, texts } from '../language/language.ts';

/** The name of an interval. Weeks of the API begin on Monday, which not every reader expects. */
export const intervalLabel = (name: keyof typeof texts.intervals): string =>
  texts.intervals[name === 'week' && !beginsWeekOnMonday ? 'weekFromMonday' : name];
