package envelope

import (
	"math"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/ijson"
)

// read reads a response. Unknown members are refused where the schema refuses them, at the top;
// those of error, metrics and provenance are kept, so that a newer peer may say more.
func (s *Response) read(r *reader) {
	var metrics, provenance bool
	r.object(func(name []byte) bool {
		switch string(name) {
		case "call_id":
			match(r, &s.CallID, isUUID)
		case "status":
			oneOf(r, &s.Status, Success, RetryableError, TerminalError, InvalidRequest)
		case "output":
			r.raw(&s.Output, 0)
		case "error":
			s.Error = new(Error)
			r.open(s.Error)
		case "side_effects":
			s.readSideEffects(r)
		case "metrics":
			metrics = true
			s.Metrics.read(r)
		case "provenance":
			provenance = true
			s.Provenance.read(r)
		case "warnings":
			r.texts(&s.Warnings, math.MaxInt, math.MaxInt)
		case "commit_token":
			s.readCommitToken(r)
		default:
			return false
		}
		return true
	})
	if r.err == nil && (s.CallID == "" || s.Status == "" || !metrics || !provenance) {
		r.flag()
	}
}

func (s *Response) readSideEffects(r *reader) {
	s.SideEffects = []jsontext.Value{}
	r.array(math.MaxInt, func() {
		var v jsontext.Value
		r.raw(&v, '{')
		s.SideEffects = append(s.SideEffects, v)
	})
}

// read reads a chunk.
func (c *Chunk) read(r *reader) {
	var final bool
	c.Index = absent
	r.object(func(name []byte) bool {
		switch string(name) {
		case "call_id":
			match(r, &c.CallID, isUUID)
		case "index":
			r.integer(&c.Index, 0, ijson.MaxInteger)
		case "kind":
			oneOf(r, &c.Kind, ChunkData, ChunkProgress, ChunkLog)
		case "data":
			r.raw(&c.Data, 0)
		case "final":
			final = true
			r.boolean(&c.Final)
		case "fence":
			r.unsigned(&c.Fence)
		default:
			return false
		}
		return true
	})
	if r.err == nil && (c.CallID == "" || c.Index == absent || c.Kind == "" || len(c.Data) == 0 || !final) {
		r.flag()
	}
}

// read reads an accepted message, and ignores what a newer peer says in it.
func (a *Accepted) read(r *reader) {
	var attempt int64
	var joined bool
	a.DeadlineUnixMS = absent
	r.object(func(name []byte) bool {
		switch string(name) {
		case "call_id":
			match(r, &a.CallID, isUUID)
		case "ref":
			r.text(&a.Ref, 1, MaxID)
		case "attempt":
			r.integer(&attempt, 1, ijson.MaxInteger)
		case "joined":
			joined = true
			r.boolean(&a.Joined)
		case "deadline_unix_ms":
			r.integer(&a.DeadlineUnixMS, 0, ijson.MaxInteger)
		case "tool_version":
			r.text(&a.ToolVersion, 1, MaxLabel)
		default:
			r.value()
		}
		return true
	})
	a.Attempt = int(attempt)
	if r.err == nil && (a.CallID == "" || a.Ref == "" || attempt == 0 || !joined || a.DeadlineUnixMS == absent || a.ToolVersion == "") {
		r.flag()
	}
}

func (s *Response) readCommitToken(r *reader) {
	if r.err == nil && r.dec.PeekKind() == 'n' {
		r.value()
		return
	}
	s.CommitToken = new(string)
	r.text(s.CommitToken, 0, math.MaxInt)
}

func (m *Metrics) read(r *reader) {
	m.DurationMS = absent
	var attempts int64
	r.object(func(name []byte) bool {
		switch string(name) {
		case "duration_ms":
			r.integer(&m.DurationMS, 0, ijson.MaxInteger)
		case "cpu_ms":
			r.integer(&m.CPUMS, 0, ijson.MaxInteger)
		case "memory_peak_mb":
			r.integer(&m.MemoryPeakMB, 0, ijson.MaxInteger)
		case "queue_ms":
			r.integer(&m.QueueMS, 0, ijson.MaxInteger)
		case "attempts":
			r.integer(&attempts, 0, ijson.MaxInteger)
		default:
			r.keep(&m.Extra, name)
		}
		return true
	})
	m.Attempts = int(attempts)
	if m.DurationMS == absent {
		m.DurationMS = 0
		r.flag()
	}
}

func (p *Provenance) read(r *reader) {
	r.open(p)
	r.unsure = r.unsure || p.ToolID == "" || p.ToolVersion == ""
}

// open reads an object that the Go type can hold whole, unknown members too. What does not fit the type
// is odd, not an error: whether it is JSON has been seen when it was read.
func (r *reader) open(dst any) {
	v := r.value()
	if r.err != nil {
		return
	}
	if v.Kind() != '{' || json.Unmarshal(v, dst) != nil {
		r.flag()
	}
}
