package reader_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// store stores a segment with one record, whose id and time follow from n.
func (f *fixture) store(subject string, n int) {
	f.T.Helper()
	at := time.Now().Truncate(time.Hour).Add(time.Duration(n) * time.Minute)
	event := audit.ToolExecuted
	if n%2 == 1 {
		event = audit.ToolDenied
	}
	lines, err := audit.SplitSegments([]audit.Record{{Event: event, Timestamp: at.UTC(), Tenant: "t", Attempt: n}},
		audit.MaxSegment)
	if err != nil {
		f.T.Fatal(err)
	}
	data, _, err := lines[0].Seal(audit.Segment{Source: audit.SourceProcess, K: 1, N: 1})
	if err != nil {
		f.T.Fatal(err)
	}
	if _, err := f.JS.Publish(f.T.Context(), subject, data); err != nil {
		f.T.Fatal(err)
	}
}

// numbers returns the numbers of the first most matching records.
func (f *fixture) numbers(filter reader.Filter, most int) (all []int, err error) {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(f.T.Context(), time.Minute)
	defer cancel()
	for r, err := range reader.Replay(ctx, reader.Streams(f.JS), filter) {
		if err != nil {
			return all, err
		}
		if all = append(all, r.Attempt); len(all) == most {
			break
		}
	}
	return all, nil
}

// Records are yielded by time, independent of stream, partition and order of arrival.
func TestReplayInTimeOrder(t *testing.T) {
	f := setup(t)
	places := []string{subjects.Partition(0).Audit("t"), subjects.Partition(1).Audit("t"),
		subjects.JournalSubject("p", "t"), subjects.Denied("p", "t"), subjects.Denied("q", "t")}
	const records = 60
	var want []int
	for n := range records {
		f.store(places[n%len(places)], (n*17)%records)
		want = append(want, n)
	}
	if got, err := f.numbers(reader.Filter{}, 0); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := f.numbers(reader.Filter{Last: 3}, 0); err != nil || !slices.Equal(got, want[records-3:]) {
		t.Errorf("the last ones: %v, %v", got, err)
	}
}

// The newest records are found without reading old messages: here an old message cannot be read.
func TestNewest(t *testing.T) {
	f := setup(t)
	newer := []byte(`{"form":99,"source":"log","k":1,"n":1,"count":1,"root":"?"}` + "\n" + `{"form":99}` + "\n")
	if _, err := f.JS.Publish(t.Context(), subjects.Partition(0).Audit("t"), newer); err != nil {
		t.Fatal(err)
	}
	const records = 700
	for n := 1; n <= records; n++ {
		f.store(subjects.Partition(0).Audit("t"), 10*n)
		if n%100 == 0 {
			f.store(subjects.Denied("p", "t"), 10*n+1)
		}
	}
	for name, c := range map[string]struct {
		filter reader.Filter
		want   []int
	}{
		"two of two streams": {reader.Filter{Last: 2}, []int{7000, 7001}},
		"further back":       {reader.Filter{Last: 2, Event: audit.ToolDenied}, []int{6001, 7001}},
		"of a tenant":        {reader.Filter{Last: 3, Tenant: "t"}, []int{6990, 7000, 7001}},
	} {
		if got, err := f.numbers(c.filter, 0); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, filter := range map[string]reader.Filter{"all": {}, "more than there are": {Last: records + 10}} {
		if got, err := f.numbers(filter, 0); !format.Newer(err) {
			t.Errorf("%s: %d records, %v", name, len(got), err)
		}
	}
}

// With Last and Follow, no record is missing between the newest and the new ones, and none is yielded twice.
func TestNewestAndThenOn(t *testing.T) {
	f := setup(t)
	for n := range 5 {
		f.store(subjects.Partition(0).Audit("t"), 2*n)
	}
	var got []int
	next, wait, stored := 10, make(chan struct{}, 100), make(chan struct{}, 100)
	bustest.Run(t, func(ctx context.Context) {
		for ; ; next += 2 {
			select {
			case <-wait:
				f.store([]string{subjects.Denied("p", "t"), subjects.JournalSubject("p", "t")}[next/2%2], next)
				stored <- struct{}{}
			case <-ctx.Done():
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for r, err := range reader.Replay(ctx, reader.Streams(f.JS), reader.Filter{Last: 2, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Attempt)
		if len(got) == 6 {
			break
		}
		if len(got) > 1 {
			wait <- struct{}{}
		}
	}
	for range 4 { // they may be read before their acknowledgement
		<-stored
	}
	if want := []int{6, 8, 10, 12, 14, 16}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A record matches by a name that JSON can write in several ways.
func TestFilterByOddNames(t *testing.T) {
	f := setup(t)
	names := []string{`a"b`, `a\b`, "a\nb", "<é>&", "\u2028", `u00e9`}
	for i, name := range names {
		f.put(i, audit.Record{Event: audit.ToolDenied, Timestamp: time.Now().UTC(), ToolName: name, Tenant: "t", Attempt: i})
	}
	escaped := fmt.Appendf(nil, `{"source":"gate","k":1,"n":1,"count":1,"root":"","form":2}%s%s%s`, "\n",
		`{"form":3, "event":"tool_denied", "tool_name":"\u003c\u00e9>\u0026", "timestamp_utc":"2026-11-22T00:00:00Z"}`,
		"\n")
	if _, err := f.JS.Publish(t.Context(), subjects.JournalSubject("other", "t"), escaped); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		want := 1
		if name == "<é>&" {
			want = 2
		}
		if got, err := f.numbers(reader.Filter{Tool: name}, 0); err != nil || len(got) != want || got[want-1] != i {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
}

// Check lists the valid values before anything is read.
func TestFilterCheck(t *testing.T) {
	f := setup(t)
	for name, filter := range map[string]reader.Filter{
		"event": {Event: "nosuch"}, "status": {Status: "nosuch"}, "code": {Code: "NOSUCH-001"},
		"last": {Last: -1}, "too many": {Last: 1 << 20}, "times": {Since: time.Unix(2, 0), Until: time.Unix(1, 0)},
	} {
		if got, err := f.numbers(filter, 0); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	own := reader.Filter{Code: "R-UPSTREAM-OWN", Status: "retryable_error", Event: audit.ToolFailed}
	if err := own.Check(); err != nil {
		t.Errorf("a code of a tool's own: %v", err)
	}
	if err := f.JS.DeleteStream(t.Context(), subjects.DeniedStream); err != nil {
		t.Fatal(err)
	}
	if _, err := f.numbers(reader.Filter{Last: 1}, 0); err == nil {
		t.Error("a record without a stream is read")
	}
}
