import {
  NoGenerationError,
  type PurchaseAnswers,
  type PurchaseEngine,
} from '../domain/purchase-engine.ts';

/**
 * Answers from `preferred` as soon as it has an organization's purchases, and
 * from `otherwise` until then.
 */
export function firstAvailable(
  preferred: PurchaseEngine,
  otherwise: PurchaseEngine,
): PurchaseEngine {
  return {
    ...answersOf(preferred, otherwise),
    forSource: (source) => answersOf(preferred.forSource(source), otherwise.forSource(source)),
    close: async () => {
      await preferred.close();
      await otherwise.close();
    },
  };
}

function answersOf(preferred: PurchaseAnswers, otherwise: PurchaseAnswers): PurchaseAnswers {
  const ask = async <Answer>(
    organizationId: bigint,
    question: (engine: PurchaseAnswers) => Promise<Answer>,
  ): Promise<Answer> => {
    if ((await preferred.freshness(organizationId)) === null) return question(otherwise);
    try {
      return await question(preferred);
    } catch (error) {
      // It had them a moment ago, and lacked the memory when the question's turn came.
      if (!(error instanceof NoGenerationError)) throw error;
      return question(otherwise);
    }
  };

  return {
    list: (organizationId, query, ...asking) =>
      ask(organizationId, (engine) => engine.list(organizationId, query, ...asking)),
    get: (organizationId, purchaseId, ...asking) =>
      ask(organizationId, (engine) => engine.get(organizationId, purchaseId, ...asking)),
    stats: (organizationId, query, ...asking) =>
      ask(organizationId, (engine) => engine.stats(organizationId, query, ...asking)),
    export: (organizationId, filters, take, signal) =>
      ask(organizationId, (engine) => engine.export(organizationId, filters, take, signal)),
    freshness: async (organizationId) =>
      (await preferred.freshness(organizationId)) ?? otherwise.freshness(organizationId),
    version: async (organizationId) =>
      (await preferred.version(organizationId)) ?? otherwise.version(organizationId),
    reach: (organizationId, instant, signal) =>
      ask(organizationId, (engine) => engine.reach(organizationId, instant, signal)),
  };
}
