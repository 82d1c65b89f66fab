// The API's shapes under short names; they are generated from the server's own document.
import type { components } from './schema';

type Shapes = components['schemas'];

export type Alert = Shapes['Alert'];
export type Artifact = Shapes['Artifact'];
export type AuditEntry = Shapes['AuditEntry'];
export type Backfill = Shapes['Backfill'];
export type BackfillPreview = Shapes['BackfillPreview'];
export type BillingAccount = Shapes['BillingAccount'];
export type BulkAction = Shapes['BulkAction'];
export type BulkFilter = Shapes['BulkFilter'];
export type BulkOperation = Shapes['BulkOperation'];
export type BulkPreview = Shapes['BulkPreview'];
export type Calendar = Shapes['Calendar'];
export type Channel = Shapes['Channel'];
export type CronPreset = Shapes['CronPreset'];
export type CronPreview = Shapes['Preview'];
export type Delivery = Shapes['Delivery'];
export type Diagnosis = Shapes['Diagnosis'];
export type ErrorCode = Shapes['ErrorCode'];
export type Flow = Shapes['Flow'];
export type FlowRun = Shapes['FlowRun'];
export type FlowStep = Shapes['FlowStep'];
export type Grant = Shapes['Grant'];
export type Job = Shapes['Job'];
export type JobState = Shapes['JobState'];
export type FlowItem = Shapes['FlowItem'];
export type Limit = Shapes['Limit'];
export type LogLine = Shapes['LogLine'];
export type Node = Shapes['Node'];
export type Problem = Shapes['Problem'];
export type Queue = Shapes['Queue'];
export type QueuedJob = Shapes['QueuedJob'];
export type RecentRun = Shapes['RecentRun'];
export type Role = Shapes['Role'];
export type Rule = Shapes['Rule'];
export type Schedule = Shapes['Schedule'];
export type ScheduleStatistics = Shapes['ScheduleStatistics'];
export type SerialHold = Shapes['SerialHold'];
export type Series = Shapes['Series'];
export type SeriesBucket = Shapes['SeriesBucket'];
export type Session = Shapes['SessionBody'];
export type Settings = Shapes['Settings'];
export type Slot = Shapes['Slot'];
export type SlotDay = Shapes['SlotDay'];
export type SlotDays = Shapes['SlotDays'];
export type Stats = Shapes['Stats'];
export type Step = Shapes['Step'];
export type Template = Shapes['Template'];
export type Token = Shapes['Token'];
export type UpcomingSlot = Shapes['UpcomingSlot'];
export type Usage = Shapes['Usage'];
export type Why = Shapes['Why'];

/** What a job does. The document leaves it open; these are the kinds that there are. */
export type Target = { kind: string } & Record<string, unknown>;

/** A page of a list. */
export interface Page<T> {
  items: T[];
  next_cursor?: string | null;
}
