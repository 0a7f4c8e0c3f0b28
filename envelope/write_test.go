package envelope

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/ijson"
	"github.com/seed-018f16cc/toolbus/internal/members"
	"github.com/seed-018f16cc/toolbus/internal/members/memberstest"
)

// What is written by hand is what the JSON library writes, and so are its errors, but for inputs that are no I-JSON:
// these are left to the receiver.
func TestWrite(t *testing.T) {
	t.Parallel()
	memberstest.Values(3000, func(q *Request) {
		got, err := AppendRequest(nil, q)
		if _, failed := encode(ContentJSON, q); failed != nil && err == nil {
			if !bytes.Contains(got, q.Input) || ijson.Valid(q.Input) {
				t.Errorf("got %s, want %v", got, failed)
			}
			return
		}
		sameAsEncoded(t, q, got, err)
	})
	memberstest.Values(3000, func(r *Response) {
		got, err := AppendResponse(nil, r)
		sameAsEncoded(t, r, got, err)
	})
}

func sameAsEncoded(t *testing.T, v any, got []byte, err error) {
	t.Helper()
	want, failed := encode(ContentJSON, v)
	if string(got) != string(want) || fmt.Sprint(err) != fmt.Sprint(failed) {
		t.Errorf("got  %s, %v\nwant %s, %v", got, err, want, failed)
	}
}

// Most calls are written by hand.
func TestWritesMost(t *testing.T) {
	t.Parallel()
	streamed := fullResponse()
	streamed.SideEffects, streamed.CommitToken = nil, nil
	for name, write := range map[string]func(*members.Writer, []byte){
		"request": minimalRequest().write, "response": minimalResponse().write, "streamed": streamed.write,
		"large": refResponse().write,
	} {
		w := members.Writer{}
		if write(&w, nil); w.Odd {
			t.Errorf("%s is odd", name)
		}
	}
}
