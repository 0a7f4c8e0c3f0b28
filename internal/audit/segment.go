package audit

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"iter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Segment is the first line of a segment, which is one message of the audit record. The other lines are records, one
// per line.
//
// Segments form chains: one for each partition of the call log, and two for each process with records of its own, in
// AUDIT and in DENIED. In SURPLUS each subject has a chain. Each segment holds the hash of the one before. So removing
// or inserting a segment is detectable.
type Segment struct {
	Form   int                `json:"form"`               // format number, see internal/encoding/format
	Source string             `json:"source"`             // SourceLog, SourceProcess or SourceRefusal
	Part   subjects.Partition `json:"partition,omitzero"` // of the call log, for SourceLog
	Writer string             `json:"writer,omitzero"`    // the process, for the other sources
	// After and Through limit the range of the call log that the flush has recorded completely: it starts behind After,
	// which is the Through of the flush before, and ends with Through. They are set for SourceLog.
	After   Position `json:"after,omitzero"`
	Through Position `json:"through,omitzero"`
	// Oldest is the sequence from which a starting dispatcher must read the call log to find all open attempts. It is 0 if
	// none is older than Through.
	Oldest uint64 `json:"oldest_open,omitzero"`
	K      int    `json:"k"`     // number of this segment in its flush, from 1
	N      int    `json:"n"`     // number of segments in the flush
	Count  int    `json:"count"` // number of records in this segment
	// Prev is the hash of the first line of the segment before, in hex. It is empty in the first segment of a chain.
	Prev string `json:"prev,omitzero"`
	// Root is the root of the Merkle tree (RFC 6962) over the lines of the records, in hex. Each line contains a salt, so
	// that the proof for one line reveals nothing about the others.
	Root string `json:"root"`
	// Extra holds members that a newer build has added.
	Extra map[string]jsontext.Value `json:",embed"`
}

// Sources of segments.
const (
	SourceLog     = "log"    // projected from the call log
	SourceProcess = "gate"   // no event of the log: callers that share a call, late results, credentials
	SourceRefusal = "denial" // refusals
	// SourceSurplus is of segments in the stream SURPLUS that are projected from the call log. Those of each tenant and
	// partition are a chain of their own. Through is the position of the last record.
	SourceSurplus = "surplus"
)

// Position is a place in a partition of the call log. A log that lost its end uses sequences again; the time
// distinguishes the two events.
type Position struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
}

// MaxSegment is the largest size of a segment in bytes. A segment with a single record may be larger.
const MaxSegment = 512 << 10

// roomForHead is the number of bytes that are reserved for the first line.
const roomForHead = 1 << 10

// SegmentBody holds the encoded records of one segment, all of one tenant.
type SegmentBody struct {
	Tenant string
	Count  int
	text   []byte
	leaves []tlog.Hash
}

// SplitSegments encodes records, each with a new salt, and groups them by tenant into as few bodies as fit into
// segments of at most most bytes. Bodies are ordered by their first records. It does not change records, which other
// goroutines may read at the same time.
func SplitSegments(records []Record, most int) ([]*SegmentBody, error) {
	salts := make([]byte, saltSize*len(records))
	if _, err := rand.Read(salts); err != nil {
		return nil, fmt.Errorf("audit record: %w", err)
	}
	var all []*SegmentBody
	open := map[string]*SegmentBody{} // the last body of each tenant
	var line []byte
	var r Record
	for i := range records {
		r = records[i]
		r.Salt = base64.RawURLEncoding.EncodeToString(salts[i*saltSize : (i+1)*saltSize])
		if i == 0 || !allows(&records[i-1], &r) || !appendAllowed(&line, r.Salt) {
			var err error
			if line, err = r.Append(line[:0]); err != nil {
				return nil, err
			}
		}
		l := open[r.Tenant]
		if l == nil || roomForHead+len(l.text)+len(line) >= most {
			l = &SegmentBody{Tenant: r.Tenant}
			open[r.Tenant], all = l, append(all, l)
		}
		l.add(line)
	}
	return all, nil
}

// allows reports whether r is the second record of a request of which before is the first, see [Project].
func allows(before, r *Record) bool {
	return r.Event == ToolAllowed && before.Event == ToolRequested && r.LogSeq != 0 && r.LogSeq == before.LogSeq &&
		r.LogPart == before.LogPart && r.CallID == before.CallID
}

// The beginnings of the lines of the two records of a request, and the length of the end of each: the salt and what
// closes it.
const (
	requestedHead = `{"form":4,"event":"tool_requested","event_name":"ToolInvoked",`
	allowedHead   = `{"form":4,"event":"tool_allowed","event_name":"PolicyApplied",`
	saltEnd       = len(`"}`)
)

// appendAllowed makes the line of the second record of a request from that of the first one: they differ in the event,
// its name and the salt, and encoding is the largest part of recording. It returns false, and leaves the line, if that
// does not look as expected.
func appendAllowed(line *[]byte, salt string) bool {
	end := len(*line) - len(salt) - saltEnd
	if end < len(requestedHead) || string((*line)[:len(requestedHead)]) != requestedHead ||
		!bytes.HasSuffix((*line)[:end], []byte(`"salt":"`)) {
		return false
	}
	var room [1 << 10]byte
	middle := append(room[:0], (*line)[len(requestedHead):end]...)
	*line = append(append(append(append((*line)[:0], allowedHead...), middle...), salt...), `"}`...)
	return true
}

// saltSize is the size of a salt in bytes. It is too large to try all salts.
const saltSize = 16

func (l *SegmentBody) add(line []byte) {
	l.text = append(append(l.text, line...), '\n')
	l.leaves = append(l.leaves, tlog.RecordHash(line))
	l.Count++
}

// Seal returns the message of the segment that s describes, and the hash that the next segment of the chain takes as
// Prev.
func (l *SegmentBody) Seal(s Segment) (data []byte, hash string, err error) {
	root := root(l.leaves)
	s.Form, s.Count, s.Root = format.Segment.Current(), l.Count, hex.EncodeToString(root[:])
	head, err := json.Marshal(s)
	if err != nil {
		return nil, "", fmt.Errorf("audit segment: %w", err)
	}
	data = append(make([]byte, 0, len(head)+1+len(l.text)), head...)
	return append(append(data, '\n'), l.text...), hashOf(head), nil
}

func hashOf(head []byte) string {
	h := sha256.Sum256(head)
	return hex.EncodeToString(h[:])
}

// root returns the root of the Merkle tree over leaves, which must not be empty.
func root(leaves []tlog.Hash) tlog.Hash {
	if len(leaves) == 1 {
		return leaves[0]
	}
	left := 1 // the largest power of two below len(leaves)
	for 2*left < len(leaves) {
		left *= 2
	}
	return tlog.NodeHash(root(leaves[:left]), root(leaves[left:]))
}

// OpenedSegment is a stored segment.
type OpenedSegment struct {
	Segment
	Hash  string // the Prev of the next segment
	lines []byte
}

// Open decodes a message of the stream. ok is false if it is not a segment: any client that may publish to the stream
// can store other messages, and none can be removed. A segment of a newer build is an error of type [format.Error].
func Open(data []byte) (s OpenedSegment, ok bool, err error) {
	head, lines, cut := bytes.Cut(data, newline)
	var number struct {
		Form int `json:"form"`
	}
	if !cut || json.Unmarshal(head, &number) != nil || number.Form == 0 {
		return s, false, nil
	}
	if err := format.Segment.Check(number.Form); err != nil {
		return s, false, err
	}
	if json.Unmarshal(head, &s.Segment) != nil || s.Source == "" || s.K < 1 || s.N < 1 {
		return s, false, nil
	}
	s.Hash, s.lines = hashOf(head), lines
	return s, true, nil
}

var newline = []byte{'\n'}

// Lines yields the stored lines of the records.
func (s OpenedSegment) Lines() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := s.lines; len(rest) > 0; {
			var line []byte
			line, rest, _ = bytes.Cut(rest, newline)
			if !yield(line) {
				return
			}
		}
	}
}

// Whole returns an error unless the segment holds exactly the records with which it was sealed.
func (s OpenedSegment) Whole() error {
	var leaves []tlog.Hash
	for line := range s.Lines() {
		leaves = append(leaves, tlog.RecordHash(line))
	}
	if len(leaves) != s.Count || s.Count == 0 {
		return fmt.Errorf("%d records in a segment of %d", len(leaves), s.Count)
	}
	if have := root(leaves); hex.EncodeToString(have[:]) != s.Root {
		return fmt.Errorf("the root of the records is %x, not %s", have, s.Root)
	}
	return nil
}
