package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// awayTime is the longest time that a request waits for a bus that is away, and awayPause that between two looks.
const (
	awayTime  = 5 * time.Second
	awayPause = 20 * time.Millisecond
)

// notReached are the instructions for a client that begins before the bus does.
const notReached = "The bus of these tools is not reached yet, so the list of tools is empty. It changes when " +
	"the bus is reached (notifications/tools/list_changed): list the tools again then, or after a few seconds."

// errAway is the error of requests other than calls while the bus is away.
var errAway = errors.New("the connection to it is lost, or was not made yet")

// connect makes the client of a gateway without one. It returns false if that failed.
func (s *Server) connect(ctx context.Context) bool {
	if s.own.Load().client != nil {
		return true
	}
	client, err := s.o.Connect(ctx)
	if err != nil {
		s.o.Logger.Warn("the bus was not reached", "err", err)
		return false
	}
	s.own.Store(&viewer{client: client})
	return true
}

// isConnected reports whether a request of a client can be sent to the bus.
func (s *Server) isConnected(peer *sender) bool {
	return peer.client != nil && (s.o.Connected == nil || s.o.Connected())
}

// reached returns the sender of a request after the bus was reached, or after awayTime.
func (s *Server) reached(ctx context.Context, peer *sender) *sender {
	for until := time.Now().Add(awayTime); !s.isConnected(peer) && time.Now().Before(until) && ctx.Err() == nil; {
		select {
		case <-time.After(awayPause):
		case <-ctx.Done():
		}
		if own := s.own.Load(); peer.client == nil && own.client != nil {
			with := *peer
			with.client, with.tools = own.client, own
			peer = &with
		}
	}
	return peer
}

// noTools returns an empty list, for a client that begins before the bus does. Watch notifies it when there are tools.
func (s *Server) noTools(peer *sender) sdk.Result {
	s.bare.Store(true)
	res := &listing{Tools: []jsontext.Value{}}
	if peer.protocol >= modern {
		res.ResultType = resultComplete
	}
	s.o.cacheable(&res.Cacheable)
	return res
}

// isSilent reports whether err means that no dispatcher has answered.
func isSilent(err error) bool {
	_, refused := errors.AsType[*toolbus.Error](err)
	return !refused
}

// unsent returns the result of a call that was not sent because the bus is away. A key of the caller may belong to a
// call that was sent before.
func unsent(peer *sender, req *sdk.CallToolRequest) (sdk.Result, error) {
	said, err := read(req.Params.GetMeta(), peer.header)
	if err != nil {
		return nil, err
	}
	effect, text := envelope.EffectNone, "Nothing was done. Try again later."
	if said.key != "" {
		effect = envelope.EffectUnknown
		text = "It is not known whether an earlier request for the same call was done. Try again later, as the same call."
	}
	res := &reply{
		isError: true, modern: peer.protocol >= modern,
		content: []jsontext.Value{block("The bus is away, this request was not sent. " + text)},
	}
	res.Meta = sdk.Meta{
		envelope.MetaOutcome: string(envelope.RetryableError), envelope.MetaFinal: false,
		envelope.MetaCode: string(envelope.CodeTimeout), envelope.MetaEffect: string(effect),
		envelope.MetaRetryAfterMS: askAgain.Milliseconds(),
	}
	return res, nil
}
