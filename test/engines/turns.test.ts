import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Askers } from '../../src/domain/askers.ts';
import { type Turn, Turns } from '../../src/engines/duckdb/turns.ts';

const names = ['a', 'b', 'c', 'd'];
const runningPerAsker = 2;
const happenings = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('wait' as const), asker: fc.constantFrom(...names) }),
    fc.record({ kind: fc.constant('next' as const) }),
    fc.record({ kind: fc.constant('end' as const), which: fc.nat(100) }),
    fc.record({ kind: fc.constant('leave' as const), which: fc.nat(100) }),
  ),
  { maxLength: 200, size: 'max' },
);

describe('turns', () => {
  it('pass nobody twice who waits and has no place, and lose and repeat nothing', () => {
    fc.assert(
      fc.property(happenings, (steps) => {
        const turns = new Turns<Question>({
          runningPerAsker,
          waiting: 1e9,
          waitingPerAsker: 1e9,
        });
        const waiting: Question[] = [];
        const running: Question[] = [];
        /** Turns of others since an asker has been waiting without a place. */
        const passed = new Map<string, string[]>();
        const has = (among: Question[], name: string) => among.some(({ asker }) => asker === name);
        const look = () => {
          for (const name of names) {
            if (!has(waiting, name) || has(running, name)) passed.delete(name);
            else passed.set(name, passed.get(name) ?? []);
          }
        };
        for (const [number, step] of steps.entries()) {
          if (step.kind === 'wait') {
            const turn: Turn = { askers: new Askers(step.asker) };
            const question = { id: String(number), asker: step.asker, turn };
            turns.wait(question.id, turn, question);
            waiting.push(question);
          } else if (step.kind === 'next') {
            const may = waiting.filter(({ turn }) => turns.mayRun(turn.askers));
            expect(turns.ready).toBe(may.length);
            const next = turns.next();
            expect(next === undefined).toBe(may.length === 0);
            if (next === undefined) continue;
            // The oldest of its asker.
            expect(waiting.find(({ asker }) => asker === next.asker)).toBe(next);
            waiting.splice(waiting.indexOf(next), 1);
            running.push(next);
            const places = running.filter(({ asker }) => asker === next.asker).length;
            expect(places).toBeLessThanOrEqual(runningPerAsker);
            for (const [name, others] of passed) {
              if (name === next.asker) continue;
              expect(others).not.toContain(next.asker);
              others.push(next.asker);
            }
          } else if (step.kind === 'end' && running.length > 0) {
            const [ended] = running.splice(step.which % running.length, 1);
            turns.end((ended as Question).turn);
          } else if (step.kind === 'leave' && waiting.length > 0) {
            const [gone] = waiting.splice(step.which % waiting.length, 1);
            turns.leave((gone as Question).id);
            // What its asker still has waiting may have come later.
            passed.delete((gone as Question).asker);
          }
          look();
        }
      }),
    );
  });
});

type Question = { readonly id: string; readonly asker: string; readonly turn: Turn };
