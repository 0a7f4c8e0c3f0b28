package history_test

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/internal/chaos/history"
)

// Asks returns what was added, also repeatedly and between additions.
func TestJournal(t *testing.T) {
	j, err := history.NewJournal(filepath.Join(t.TempDir(), "asks.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want []checker.Ask
	for i := range 400 {
		a := checker.Ask{
			Caller: "caller-1", CallID: strconv.Itoa(i), N: int64(i), Sent: time.Unix(int64(i), 123456789).UTC(), Streamed: true,
			Answers: []*envelope.Response{envelope.Failure("id", envelope.NewError(envelope.CodeTimeout, ""),
				envelope.Provenance{Final: true}, envelope.Metrics{})},
			Chunks: []envelope.Chunk{{CallID: "id", Index: 1, Data: jsontext.Value(`{"a":[1]}`)}},
		}
		j.Add(&a)
		want = append(want, a)
		if i%200 != 199 {
			continue
		}
		var got []checker.Ask
		for a, err := range j.Asks() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, *a)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || j.Size() != len(want) {
			t.Fatalf("%d asks (-want +got):\n%.2000s", j.Size(), diff)
		}
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}
