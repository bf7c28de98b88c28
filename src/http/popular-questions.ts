import { LRUCache } from 'lru-cache';
import PQueue from 'p-queue';
import type { PurchaseEngine } from '../domain/purchase-engine.ts';

/**
 * Questions that are asked again and again of the same data, as dashboards do. When
 * there are new data, they are answered anew, one after the other, so that whoever asks
 * next finds the answer.
 */
export type PopularQuestions = {
  /** `answerAnew` is called where the question turns out to be popular. */
  note(
    organizationId: bigint,
    version: string,
    question: string,
    answerAnew: (signal: AbortSignal) => Promise<void>,
  ): void;
  /** Ends what is being answered anew. */
  close(): Promise<void>;
};

/** Less often asked of the same data, a question costs less when it is asked. */
const popularFrom = 2;
const mostAnsweredAnew = 20;
const mostRemembered = { organizations: 1_000, questions: 200 };

type Question = { times: number; readonly answerAnew: (signal: AbortSignal) => Promise<void> };
type Asked = { readonly version: string; readonly questions: Map<string, Question> };

export function createPopularQuestions(purchases: PurchaseEngine): PopularQuestions {
  const asked = new LRUCache<bigint, Asked>({ max: mostRemembered.organizations });
  const queue = new PQueue({ concurrency: 1 });
  const closing = new AbortController();
  const { signal } = closing;

  const answerAnew = (organizationId: bigint) => {
    const questions = [...(asked.get(organizationId)?.questions.values() ?? [])];
    asked.delete(organizationId);
    const popular = questions
      .filter(({ times }) => times >= popularFrom)
      .sort((a, b) => b.times - a.times)
      .slice(0, mostAnsweredAnew);
    // Who falls behind has no use for yet more of it.
    if (queue.size > mostAnsweredAnew) return;
    for (const question of popular) {
      // What fails will fail for whoever asks, and is told of then.
      queue.add(() => question.answerAnew(signal), { signal }).catch(() => {});
    }
  };
  const stopListening = purchases.onNewVersion(answerAnew);

  return {
    note(organizationId, version, question, answer) {
      const known = asked.get(organizationId);
      const now = known?.version === version ? known : { version, questions: new Map() };
      if (now !== known) asked.set(organizationId, now);
      const before = now.questions.get(question);
      if (before !== undefined) before.times += 1;
      else if (now.questions.size < mostRemembered.questions) {
        now.questions.set(question, { times: 1, answerAnew: answer });
      }
    },
    async close() {
      stopListening();
      closing.abort(new Error('the service stops'));
      await queue.onIdle();
    },
  };
}
