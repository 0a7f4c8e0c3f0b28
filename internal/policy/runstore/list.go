package runstore

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Limits of one page of runs.
const (
	maxPage      = 500       // records
	maxPageBytes = 256 << 10 // bytes of them
	maxPageRead  = 8 << 20   // bytes that are read for the page, with readOverhead for each message
	readOverhead = 300
)

// listQuiet is how long a page waits for the next record.
const listQuiet = 5 * time.Second

// List returns a page of runs.
func (s *Service) List(ctx context.Context, q envelope.RunListRequest) (
	a envelope.RunListResponse, _ *envelope.Error) {
	a, err := s.Store.list(ctx, q)
	if err != nil {
		return a, refusalOf(err)
	}
	return a, nil
}

func (s *Store) list(ctx context.Context, q envelope.RunListRequest) (a envelope.RunListResponse, err error) {
	from := bus.StartAfter(q.After)
	from.NamePrefix = rand.Text()
	if from.FilterSubjects = []string{subjects.RunRecords}; q.Tenant != "" {
		from.FilterSubjects[0] = subjects.RunsOf(q.Tenant)
	}
	a.Runs = []envelope.Run{}
	bytes, read := 0, 0
	for m, err := range bus.Messages(ctx, s.js, subjects.RunsStream, from, listQuiet) {
		if err != nil {
			return a, err
		}
		if len(a.Runs) == maxPage || bytes > maxPageBytes || read > maxPageRead {
			return a, nil // m is on the next page
		}
		read += len(m.Data()) + readOverhead
		a.Next = m.Seq
		if len(m.Data()) == 0 { // deleted by hand
			continue
		}
		var r record
		if err := format.Unmarshal(format.Entry, m.Data(), &r); err != nil {
			return a, err
		}
		if run := s.now(&r).Run; selects(q, &run) {
			a.Runs, bytes = append(a.Runs, run), bytes+len(m.Data())
		}
	}
	a.Next = 0
	return a, nil
}

func selects(q envelope.RunListRequest, r *envelope.Run) bool {
	return (q.State == "" || q.State == r.State) && (q.Implicit || !r.Implicit)
}
