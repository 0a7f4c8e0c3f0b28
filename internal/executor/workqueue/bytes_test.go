package workqueue

import (
	"testing"
	"time"
)

// A request ends with the message after which it may bring no more bytes. The server reports no end of it.
func TestRequestWithoutBytesLeft(t *testing.T) {
	w, s := &Puller{slots: slotsOf(4)}, &source{credits: 3}
	p := &pull{request: request{source: s, left: 3, bytes: 1000}, end: time.NewTimer(time.Hour)}
	w.came(p, 400)
	if p.source == nil || s.credits != 2 {
		t.Errorf("after 400 of 1000 bytes: %+v", p.request)
	}
	w.came(p, 600)
	if p.source != nil || s.credits != 0 {
		t.Errorf("after all bytes: %+v, %d credits", p.request, s.credits)
	}
}
