// A step of a flow's definition, as the drawing shows it.
import type { Step } from '../../api/types';
import { targetLine, targetType } from '../../text/jobs';
import type { GraphNode } from './FlowGraph.svelte';

export function stepNode({ step, after }: { step: Step; after: readonly string[] }): GraphNode {
  const notes: string[] = [];
  if (step.when) notes.push(`when ${step.when}`);
  if (step.map) notes.push(`for each of ${step.map.over}${step.map.limit ? `, ${step.map.limit} at once` : ''}`);
  if (step.on_failure && step.on_failure !== 'stop') notes.push(`on failure ${step.on_failure}`);
  const line = targetLine(step.target);
  const type = targetType(step.target);
  return { name: step.name, after, what: type.endsWith(`:${line}`) ? type : `${type} ${line}`, notes };
}
