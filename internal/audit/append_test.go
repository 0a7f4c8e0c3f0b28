package audit

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson/ijsontest"
)

func typicalRecord() Record {
	hash := strings.Repeat("2d7a270c", 8)
	return Record{
		Event: ToolExecuted, Name: "ToolSucceeded", Timestamp: time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC),
		Tenant: "default", Actor: "agent://local", ToolName: "bench.echo0", Fn: "echo", ToolVersion: "1.0.0",
		Digest:      "sha256:" + hash,
		Determinism: call.EffectPure, Ref: "bench_2eecho0.tvvkpo628dl23u4k9tut9d554b2032h7",
		CallID:  "e1a7bd37-ad10-4d7e-b28e-2830c7fa493b",
		Attempt: 1, TraceID: "5d415971-e1b7-430a-8b5c-87d7bb21d42b", ArgumentsHash: hash, OutputHash: hash,
		Contract: ContractVersion, Policies: envelope.PolicyVersions{Roles: hash, Lanes: "l", ToolRegistry: "t"},
		Status:    envelope.Success,
		Effect:    envelope.EffectApplied,
		DecidedBy: call.ByExecutor, Fence: 17, LogSeq: 18,
	}
}

// Append writes the same JSON as package json.
func TestAppend(t *testing.T) {
	t.Parallel()
	ijsontest.Values(3000, func(r *Record) {
		got, err := r.Append([]byte("before"))
		want, failed := json.Marshal(*r, jsontext.AllowInvalidUTF8(true))
		if failed != nil {
			if err == nil {
				t.Errorf("written: %s, though %v", got, failed)
			}
		} else if string(got) != "before"+string(want) || err != nil {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	})
	r := typicalRecord()
	if _, ok := records.Append(nil, &r, nil); !ok {
		t.Error("most records are not written by the table")
	}
}

// sameAsLibrary checks that Parse decodes a line as package json does.
func sameAsLibrary(t *testing.T, line string) {
	t.Helper()
	var want Record
	failed := json.Unmarshal([]byte(line), &want)
	got, ok, err := Parse(line)
	switch {
	case ok != (failed == nil && want.Form > 1 && want.Event != "") && err == nil,
		err != nil && failed == nil && want.Form == format.Record.Current() && want.checkValues() == nil:
		t.Fatalf("%t, %v of a line of which the library says %v: %s", ok, err, failed, line)
	case ok && !reflect.DeepEqual(got, want):
		t.Fatalf("got  %+v\nwant %+v\nof %s", got, want, line)
	}
}

// Parse decodes records as package json does, whatever else the line contains.
func TestParse(t *testing.T) {
	t.Parallel()
	ijsontest.Values(3000, func(r *Record) {
		r.Event, r.Determinism = ToolExecuted, call.EffectPure // of others a newer build has written it
		if line, err := r.Append(nil); err == nil {
			sameAsLibrary(t, string(line))
		}
	})
	r := typicalRecord()
	data, err := r.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	line := string(data)
	var read Record
	if !records.Read(line, &read, nil) {
		t.Error("most records are not read by the table")
	}
	for _, behind := range []string{" ", "x", "{}", "\x00"} {
		sameAsLibrary(t, line+behind)
	}
	for i := range line {
		sameAsLibrary(t, line[:i])
		for _, c := range []string{"\x00", `"`, `\`, "\xff", "0", "é", "{", " "} {
			sameAsLibrary(t, line[:i]+c+line[i:])
			sameAsLibrary(t, line[:i]+c+line[i+1:])
		}
	}
}

// FuzzCodecRecord checks that Parse decodes any line as package json does.
func FuzzCodecRecord(f *testing.F) {
	r := typicalRecord()
	line, err := r.Append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(line))
	f.Fuzz(func(t *testing.T, line string) { sameAsLibrary(t, line) })
}

func BenchmarkParse(b *testing.B) {
	r := typicalRecord()
	line, err := r.Append(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := Decode(line); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	r, line := typicalRecord(), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if line, err = r.Append(line[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
