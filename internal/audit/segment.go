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

// Segment is the first line of a segment: what the message is that holds it. The others are records, one a line.
//
// Segments form chains, one for each partition of the call log and one for each process that has records of its own.
// Each names the hash of the one before, so that none can be taken out or put in between unseen.
type Segment struct {
	Form   int                `json:"form"`               // see internal/encoding/format
	Source string             `json:"source"`             // one of the sources below
	Part   subjects.Partition `json:"partition,omitzero"` // of the call log, for source log
	Writer string             `json:"writer,omitzero"`    // the process, for the other sources
	// After and Through are the positions of the call log between which the flush has put everything on record: the
	// first is the Through of the flush before. For source log.
	After   Position `json:"after,omitzero"`
	Through Position `json:"through,omitzero"`
	// Oldest is from where a guardian that starts has to read to find all attempts that are open; 0 where none is older
	// than Through.
	Oldest uint64 `json:"oldest_open,omitzero"`
	K      int    `json:"k"`     // number of this segment in its flush, from 1
	N      int    `json:"n"`     // segments of the flush
	Count  int    `json:"count"` // records in this one
	// Prev is the hash of the first line of the segment before, in hex; empty in the first of a chain.
	Prev string `json:"prev,omitzero"`
	// Root is the root of the Merkle tree (RFC 6962) over the lines of the records, in hex. Each line carries a salt,
	// so that a proof of one shows nothing of its neighbours.
	Root string `json:"root"`
	// Extra are members that a newer build has added.
	Extra map[string]jsontext.Value `json:",embed"`
}

// Sources of segments.
const (
	SourceLog     = "log"    // projected from the call log
	SourceProcess = "gate"   // what is no event of it: callers that share a call, late results
	SourceRefusal = "denial" // refusals
)

// Position is a place in a partition of the call log. The time tells it from one of the same number in a log
// that had lost its end.
type Position struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
}

// MaxSegment is how large a segment is at the most, in bytes, unless it holds a single record.
const MaxSegment = 512 << 10

// roomForHead is what a first line may need.
const roomForHead = 1 << 10

// SegmentBody are records of one tenant that go into one segment, encoded.
type SegmentBody struct {
	Tenant string
	Count  int
	text   []byte
	leaves []tlog.Hash
}

// SplitSegments encodes records, each with a fresh salt, and puts them together by tenant, in the order in which
// tenants come first, into as few parts as fit into segments of so many bytes. It does not change records: other
// goroutines may read them meanwhile.
func SplitSegments(records []Record, most int) ([]*SegmentBody, error) {
	salts := make([]byte, saltSize*len(records))
	if _, err := rand.Read(salts); err != nil {
		return nil, fmt.Errorf("audit record: %w", err)
	}
	var all []*SegmentBody
	open := map[string]*SegmentBody{} // the last ones of each tenant
	var line []byte
	var r Record
	for i := range records {
		r = records[i]
		r.Salt = base64.RawURLEncoding.EncodeToString(salts[i*saltSize : (i+1)*saltSize])
		var err error
		if line, err = r.Append(line[:0]); err != nil {
			return nil, err
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

// saltSize is that of salts, in bytes: nobody tries out so many.
const saltSize = 16

func (l *SegmentBody) add(line []byte) {
	l.text = append(append(l.text, line...), '\n')
	l.leaves = append(l.leaves, tlog.RecordHash(line))
	l.Count++
}

// Seal returns the message of the segment that s describes, and the hash by which the next one of its chain names it.
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

// root is the root of the Merkle tree over leaves, of which there is one at least.
func root(leaves []tlog.Hash) tlog.Hash {
	if len(leaves) == 1 {
		return leaves[0]
	}
	left := 1 // the largest power of two that is smaller than their number
	for 2*left < len(leaves) {
		left *= 2
	}
	return tlog.NodeHash(root(leaves[:left]), root(leaves[left:]))
}

// OpenedSegment is a segment as it was stored.
type OpenedSegment struct {
	Segment
	Hash  string // by which the next one of its chain names it
	lines []byte
}

// Open reads a message of the stream. It is not ok for one that is no segment: anybody who reaches the server may
// write to the stream, and nothing can be removed from it. One of a newer build is a [format.Error].
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

// Lines yields the records as they are stored.
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

// Whole returns an error unless the segment holds the records that it was sealed with.
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
