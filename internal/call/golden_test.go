package call_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

var update = flag.Bool("update", false, "write the golden files")

// examples is a log with every kind of event and every member. Builds before [call.Lookup] wrote none.
func examples(t *testing.T, lookup call.Lookup) *journal {
	j := newJournal(t)
	a := ask(call.SideEffectful, "11111111-1111-4111-8111-111111111111")
	a.Pinned.Digest, a.Pinned.DryRun, a.Priority = "sha256:00", true, envelope.PriorityHigh
	a.Pinned.Lookup = lookup
	a.Owner = call.Owner{
		CallID: a.Owner.CallID, Actor: "agent", Reply: "_INBOX.a", ContentType: "application/json",
		Trace: "22222222-2222-4222-8222-222222222222", Parent: "00-0-0-01", Run: "run", Role: "role", Lane: "lane",
		Scopes: "+pay read",
	}
	j.add(call.Admit(j.state, a).Event)
	j.admit(call.SideEffectful, "33333333-3333-4333-8333-333333333333")
	j.claim("claim")
	j.succeed()
	return j
}

var kinds = map[call.Kind]string{call.Requested: "requested", call.Joined: "joined", call.Claimed: "claimed",
	call.Decided: "decided"}

func golden(k call.Kind, lookup call.Lookup) string {
	return filepath.Join("testdata", kinds[k]+suffixes[lookup]+".json")
}

var suffixes = map[call.Lookup]string{"": "", call.LookupYes: "-lookup"}

func goldenEvents(t testing.TB) (raws [][]byte) {
	t.Helper()
	for k := range kinds {
		for lookup := range suffixes {
			raw, err := os.ReadFile(golden(k, lookup))
			if err != nil {
				t.Fatal(err)
			}
			raws = append(raws, raw)
		}
	}
	return raws
}

// TestGolden pins the JSON of the events, as dead letters keep it. A difference means that what
// is stored cannot be read any more, or is read as something else.
func TestGolden(t *testing.T) {
	t.Parallel()
	for lookup := range suffixes {
		pin(t, lookup)
	}
}

func pin(t *testing.T, lookup call.Lookup) {
	t.Helper()
	for _, e := range examples(t, lookup).events {
		raw, err := json.Marshal(e, jsontext.Multiline(true))
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, '\n')
		if *update {
			if err := os.WriteFile(golden(e.Kind, lookup), raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden(e.Kind, lookup))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(raw)); diff != "" {
			t.Errorf("%s: %s", e.Kind, diff)
		}
		var read call.Event
		if err := json.Unmarshal(want, &read); err != nil {
			t.Fatal(err)
		}
		e.State.Seq = 0 // it is the position of the event, which is not in it
		if diff := cmp.Diff(e, read); diff != "" {
			t.Errorf("%s: %s", e.Kind, diff)
		}
	}
}
