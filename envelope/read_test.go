package envelope

import (
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/members"
	"github.com/seed-018f16cc/toolbus/internal/members/memberstest"
)

// What is read by hand is what the JSON library reads, of whatever was written by hand, and of whatever one byte more,
// less or other makes of it.
func TestRead(t *testing.T) {
	t.Parallel()
	read := 0
	memberstest.Values(2000, func(q *Request) {
		q.Input = null
		if body, err := AppendRequest(nil, q); err == nil && likeRead(t, body) {
			read++
		}
	})
	if read < 100 {
		t.Errorf("only %d requests were read by hand", read)
	}
	q := minimalRequest()
	q.Input, q.Context.Scopes, q.Constraints.MemoryMBLimit, q.DryRun = null, []string{"a", "b"}, 7, true
	body, err := AppendRequest(nil, q)
	if err != nil || !likeRead(t, body) {
		t.Fatalf("%s is not read by hand: %v", body, err)
	}
	for at := range body {
		for _, c := range []byte(`",:{}[]\ e.-+019tnx`) {
			other := append([]byte(nil), body...)
			other[at] = c
			likeRead(t, other)
			likeRead(t, append(append(append([]byte(nil), body[:at]...), c), body[at:]...))
		}
		likeRead(t, append(append([]byte(nil), body[:at]...), body[at+1:]...))
	}
}

// likeRead reports whether body is JSON and read by hand, and compares that with what the library reads.
func likeRead(t *testing.T, body []byte) bool {
	t.Helper()
	var got, want Request
	r := members.Reader{Rest: string(body)}
	got.read(&r)
	failed := json.Unmarshal(body, &want)
	if failed != nil || r.Odd {
		return false
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("of %s\ngot  %+v\nwant %+v", body, got, want)
	}
	return true
}

// A request that was found to be one is read alike without its schema.
func TestReadRequest(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]*Request{"minimal": minimalRequest(), "full": fullRequest()} {
		body, err := AppendRequest(nil, q)
		if err != nil {
			t.Fatal(err)
		}
		want, refused := DecodeRequest(ContentJSON, body)
		got, failed := ReadRequest(body)
		if refused != nil || failed != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v, %v", name, got, failed, want, refused)
		}
	}
	for _, body := range []string{`{`, `{"call_id":7}`, `{"a":1,"a":2}`} {
		if got, failed := ReadRequest([]byte(body)); failed == nil {
			t.Errorf("%s is read as %+v", body, got)
		}
	}
}
