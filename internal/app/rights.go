package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// regainEvery is the least time between two reconnects of [executorProcess.regainRights].
const regainEvery = time.Second

// regainRights reconnects, until ctx ends, after the server has refused a claim or an outcome of this executor. Its
// connection names the tools that a dispatcher knew when it was opened, and in a rollout executors get a tool first.
// The refused event is written again after the reconnect.
func (e *executorProcess) regainRights(ctx context.Context) {
	refused := make(chan struct{}, 1)
	said, own := e.NC.ErrorHandler(), "."+subjects.Token(e.Instance)+`"`
	e.NC.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if said != nil {
			said(nc, sub, err)
		}
		if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), own) {
			select {
			case refused <- struct{}{}:
			default:
			}
		}
	})
	defer e.NC.SetErrorHandler(said)
	for {
		select {
		case <-ctx.Done():
			return
		case <-refused:
		}
		e.Logger.Warn("connecting again for the rights to a tool that is new to the dispatchers")
		e.workers.Pause()
		_ = e.NC.ForceReconnect() // fails only on a closed connection
		timer.Sleep(ctx, regainEvery)
	}
}
