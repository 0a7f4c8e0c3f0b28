package subjects

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// Partition is the number of a partition of the call log. A partition is a stream and KV bucket with its own order of
// events and its own syncs to disk. All events of an id are in the same partition. Partition 0 always exists.
type Partition int

// MetaPartitions is the key of the number of partitions in the metadata of each partition. A call log with one
// partition has no such entry. The number is fixed when the streams are created.
const MetaPartitions = "toolbus.partitions"

// MetaForm is the key of the format number in the metadata of each stream; see internal/encoding/format. Streams of
// Toolbus 0.1 have no such entry.
const MetaForm = "toolbus.form"

// MaxPartitions is the largest number of partitions. Every dispatcher follows each partition, and writes one batch of
// audit records at a time for each. A server accepts 50 concurrent batches per stream.
const MaxPartitions = 8

// PartitionOf returns the partition of the log of an id, in a call log with that number of partitions. 0 means 1.
func PartitionOf(id string, partitions int) Partition {
	if partitions <= 1 {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(id)) // never fails
	return Partition(h.Sum32() % uint32(partitions))
}

// Bucket returns the name of the bucket: "calls", "calls_1", "calls_2", …
func (p Partition) Bucket() string { return p.name("calls", "_") }

// Stream returns the name of the stream, which is that of the bucket with the prefix KV_.
func (p Partition) Stream() string { return "KV_" + p.Bucket() }

// All returns the subject filter of all events of the partition.
func (p Partition) All() string { return p.prefix() + ">" }

// Audit returns the subject of the audit segments of a tenant that are derived from the partition.
func (p Partition) Audit(tenant string) string { return auditOf(p.Bucket(), tenant) }

// AuditLog returns the subject filter of the audit segments of all tenants that are derived from the partition.
func (p Partition) AuditLog() string { return auditPrefix + p.Bucket() + ".*" }

// Surplus returns the subject of the segments in the stream SURPLUS that are derived from the partition.
func (p Partition) Surplus(tenant string) string {
	return surplusPrefix + p.Bucket() + "." + Token(tenant)
}

// SurplusLog returns the subject filter of [Partition.Surplus] for all tenants.
func (p Partition) SurplusLog() string { return surplusPrefix + p.Bucket() + ".*" }

// KeptAll returns the filter of the list of kept calls of the partition, see package kv.
func (p Partition) KeptAll() string { return p.kept(">") }

// KeptSteps returns the filter of the steps of that list.
func (p Partition) KeptSteps() string { return p.kept("step.*") }

// KeptStep returns the subject of a step of that list.
func (p Partition) KeptStep(n int) string { return p.kept("step." + strconv.Itoa(n)) }

// KeptSlot returns the subject of a slot of that list.
func (p Partition) KeptSlot(n int) string { return p.kept("slot." + strconv.Itoa(n)) }

func (p Partition) kept(last string) string { return keptListPrefix + p.Bucket() + "." + last }

// Recorded returns the subject filters of the events that the audit record is derived from: requests and decisions.
func (p Partition) Recorded() []string {
	return []string{p.prefix() + "*.*.*." + KindRequest + ".>", p.prefix() + "*.*.*." + decisions + ".>"}
}

// WorkFilter returns the subject filter of the requests in a [Queue] of a pool.
func (p Partition) WorkFilter(pool, queue string) string {
	return p.prefix() + "*.*.*." + KindRequest + ".*." + word(queue) + "." + Token(pool)
}

// NextWork returns the subject of pull requests to the consumer [Worker].
func (p Partition) NextWork(pool, queue string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + p.Stream() + "." + Worker(pool, queue)
}

// DirectGet returns the subject of direct get requests to a stream, which any replica answers.
func DirectGet(stream string) string { return "$JS.API.DIRECT.GET." + stream }

// Acks returns the subject filter of the acknowledgements to the consumer [Worker].
func (p Partition) Acks(pool, queue string) string {
	return "$JS.ACK." + p.Stream() + "." + Worker(pool, queue) + ".>"
}

// Written returns the subject filters of the events that executors write, which are claims and decisions. "" selects
// all tools or all instances.
func (p Partition) Written(tool, instance string) []string {
	log, by := p.prefix()+anyOr(tool)+".*.*.", anyOr(instance)
	return []string{log + KindClaim + "." + by, log + decisions + "." + KindOutcome + "." + by}
}

func anyOr(name string) string {
	if name == "" {
		return "*"
	}
	return Token(name)
}

func (p Partition) prefix() string { return string(p.appendPrefix(nil)) }

func (p Partition) appendPrefix(b []byte) []byte {
	return append(append(append(b, keyPrefix...), p.Bucket()...), '.')
}

const keyPrefix = "$KV."

// name returns first for partition 0, and first, sep and the number for the others.
func (p Partition) name(first, sep string) string {
	if p == 0 {
		return first
	}
	return first + sep + strconv.Itoa(int(p))
}

// cutPart splits a subject of the call log into its partition and the rest. ok is false for any other subject.
func cutPart(subject string) (p Partition, rest string, ok bool) {
	name, ok := strings.CutPrefix(subject, keyPrefix)
	bucket, rest, dot := strings.Cut(name, ".")
	if !ok || !dot {
		return 0, "", false
	}
	if number, numbered := strings.CutPrefix(bucket, Partition(0).Bucket()+"_"); numbered {
		n, ok := natural(number)
		return Partition(n), rest, ok && n < MaxPartitions
	}
	return 0, rest, bucket == Partition(0).Bucket()
}
