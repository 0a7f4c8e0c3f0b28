package workqueue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
)

// A message that is taken over has its slot until it is handled; then neither the slot nor the end of the workers waits
// for the goroutine that does not return.
func TestTakeOver(t *testing.T) {
	f := setup(t)
	for n := range 2 {
		f.Admit(n, envelope.PriorityNormal)
	}
	begun, release, stuck := make(chan *workqueue.Message, 2), make(chan struct{}), make(chan struct{})
	var lost sync.WaitGroup
	w, err := workqueue.New(t.Context(), workqueue.Keep(f.JS, "default", 1, time.Minute), "default", 1, 1, time.Minute,
		func(_ context.Context, m *workqueue.Message) {
			lost.Add(1)
			defer lost.Done()
			m.TakeOver(func() { <-release; m.Ack() })
			begun <- m
			<-stuck
		})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(context.Background(), ctx, f.NC) }()
	<-begun
	select {
	case <-begun:
		t.Error("the slot was given away before its message was handled")
	case <-time.After(400 * time.Millisecond): // longer than a message waits for a slot
	}
	release <- struct{}{}
	<-begun
	stop()
	select {
	case <-ended:
		t.Error("the workers have ended before the message was handled")
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	<-ended
	close(stuck)
	lost.Wait()
}
