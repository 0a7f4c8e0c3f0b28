package subjects

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// Partition is a partition of the call log: a stream, which is a KV bucket, with its own order of events
// and its own syncs. An id is always in the same one, so that everything about a call is. Part 0 is
// there in every deployment.
type Partition int

// MetaPartitions is the entry in the metadata of every partition that says how many there are; a log of
// one has none. It is fixed when the streams are made.
const MetaPartitions = "toolbus.partitions"

// MetaForm is the entry in the metadata of every stream that says which form of Toolbus's streams it is of; see
// internal/encoding/format. Those of Toolbus 0.1 have none.
const MetaForm = "toolbus.form"

// MaxPartitions is how many partitions there can be. Every dispatcher follows each of them, and has a batch
// of records under way for each, of which a server takes 50 for the record at once.
const MaxPartitions = 8

// PartitionOf returns in which of so many partitions the log of an id is. 0 partitions are one.
func PartitionOf(id string, partitions int) Partition {
	if partitions <= 1 {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(id)) // never fails
	return Partition(h.Sum32() % uint32(partitions))
}

// Bucket returns the name of the part's bucket: "calls", "calls_1", "calls_2", …
func (p Partition) Bucket() string { return p.name("calls", "_") }

// Stream returns the name of the part's stream.
func (p Partition) Stream() string { return "KV_" + p.Bucket() }

// All returns the filter of all its events.
func (p Partition) All() string { return p.prefix() + ">" }

// Audit returns the subject of the segments of a tenant that are projected from it.
func (p Partition) Audit(tenant string) string { return auditOf(p.Bucket(), tenant) }

// AuditLog returns the filter of all segments that are projected from it.
func (p Partition) AuditLog() string { return auditPrefix + p.Bucket() + ".*" }

// FormerLog returns the filter of the records that builds before segments have projected from it, and a subject among
// them for the fence that stops such a build.
func (p Partition) FormerLog() (all, fence string) {
	all = auditPrefix + p.name("log", "")
	return all + ".>", all + ".fence"
}

// Recorded are the filters of the events that auditors are told of: admissions and decisions.
func (p Partition) Recorded() []string {
	return []string{p.prefix() + "*.*.*." + KindRequest + ".>", p.prefix() + "*.*.*." + decisions + ".>"}
}

// WorkFilter returns the filter of the requests that executors of a pool pull from a [Queue].
func (p Partition) WorkFilter(pool, queue string) string {
	return p.prefix() + "*.*.*." + KindRequest + ".*." + word(queue) + "." + Token(pool)
}

// NextWork returns the subject on which a server hands out what the consumer [Worker] holds.
func (p Partition) NextWork(pool, queue string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + p.Stream() + "." + Worker(pool, queue)
}

// DirectGet returns the subject on which servers answer with messages of a stream, whichever has a copy of it.
func DirectGet(stream string) string { return "$JS.API.DIRECT.GET." + stream }

// Acks returns the filter of the acknowledgements of what [Partition.NextWork] hands out.
func (p Partition) Acks(pool, queue string) string {
	return "$JS.ACK." + p.Stream() + "." + Worker(pool, queue) + ".>"
}

// Written returns the filters of the events that an executor writes: of one tool and one instance, or with "" of all.
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

// name returns first for part 0; the others carry their number after a separator.
func (p Partition) name(first, sep string) string {
	if p == 0 {
		return first
	}
	return first + sep + strconv.Itoa(int(p))
}

// cutPart splits a subject of the call log into its part and the rest; ok is false for any other subject.
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
