import { useEffect, useState } from 'preact/hooks';
import { problemOf } from '../api/api.ts';
import type { ApiProblem } from '../api/problem.ts';

/** What a view of one request shows: its value, or why the last request failed. */
export function useRequest<Value>(request: () => Promise<Value>) {
  const [value, setValue] = useState<Value | null>(null);
  const [problems, setProblems] = useState<readonly ApiProblem[]>([]);
  const [isBusy, setBusy] = useState(true);
  /** Shows what another request makes of the value. */
  const show = async (request: () => Promise<Value>) => {
    try {
      setValue(await request());
      setProblems([]);
    } catch (error) {
      setProblems([problemOf(error)]);
    }
    setBusy(false);
  };
  const retry = () => show(request);
  useEffect(() => void retry(), []);
  return { value, problems, isBusy, show, retry };
}
