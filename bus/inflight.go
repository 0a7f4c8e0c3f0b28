package bus

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// maxReads is the number of reads of bodies, pages and parts that a process may have under way over one connection.
// Each asks the server for one message of the largest size, 1 MiB, or for a page of that size. So all take half of
// what the server buffers for a connection (deployment.MaxPending), beyond which it closes the connection.
//
// At most maxPages of them are pages, see [Messages], so that who reads pages does not keep out who reads a message.
const (
	maxReads = 4
	maxPages = 2
)

// reads counts the reads that are under way over a connection. After a reconnect none is, because the server has
// dropped its answers to the connection before.
type reads struct {
	nc *nats.Conn

	pages chan struct{} // holds a value for each that is under way or waits for its turn among all reads

	mu         sync.Mutex
	underWay   chan struct{} // holds a value for each read
	reconnects uint64        // of the connection, as of underWay
}

func newReads(nc *nats.Conn) *reads {
	return &reads{
		nc: nc, pages: make(chan struct{}, maxPages), underWay: make(chan struct{}, maxReads),
		reconnects: nc.Stats().Reconnects,
	}
}

// current returns the reads over the present connection to the server.
func (r *reads) current() chan struct{} {
	n := r.nc.Stats().Reconnects
	r.mu.Lock()
	defer r.mu.Unlock()
	if n != r.reconnects {
		r.underWay, r.reconnects = make(chan struct{}, maxReads), n
	}
	return r.underWay
}

// begin waits until a read may begin, which is under way until done is called. The error is that of ctx.
func (r *reads) begin(ctx context.Context) (done func(), err error) {
	for {
		all := r.current()
		select {
		case all <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("%d reads of the server were under way: %w", maxReads, ctx.Err())
		}
		if all == r.current() {
			return func() { <-all }, nil
		}
		<-all
	}
}

// beginPage is begin for a page.
func (r *reads) beginPage(ctx context.Context) (done func(), err error) {
	select {
	case r.pages <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%d pages of the server were under way: %w", maxPages, ctx.Err())
	}
	read, err := r.begin(ctx)
	if err != nil {
		<-r.pages
		return nil, err
	}
	return func() { read(); <-r.pages }, nil
}

// BeginRead waits until a read of one message may begin over the connection of js, see maxReads. Call done when the
// answer has arrived, or will not be waited for. If js was not made by [Shared], there is no limit.
func BeginRead(ctx context.Context, js jetstream.JetStream) (done func(), err error) {
	if j, ok := js.(*SharedJetStream); ok {
		return j.reads.begin(ctx)
	}
	return func() {}, nil
}

// boundedStream is a stream whose reads of single messages count as reads of the connection.
type boundedStream struct {
	jetstream.Stream
	reads *reads
}

// GetMsg implements [jetstream.Stream].
func (s boundedStream) GetMsg(
	ctx context.Context, seq uint64, opts ...jetstream.GetMsgOpt,
) (*jetstream.RawStreamMsg, error) {
	done, err := s.reads.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.Stream.GetMsg(ctx, seq, opts...)
}

// GetLastMsgForSubject implements [jetstream.Stream].
func (s boundedStream) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	done, err := s.reads.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.Stream.GetLastMsgForSubject(ctx, subject)
}
