package bus

import (
	"log/slog"

	"github.com/nats-io/nats.go"
)

// Watched makes a connection log what happens to it; the client library would say some of it on
// standard error, and nothing of the rest.
func Watched(log *slog.Logger) []nats.Option {
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // it was not closed by us
				log.Warn("connection to the bus lost", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Warn("connected to the bus again", "server", Redacted(nc.ConnectedUrl()))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("the bus complains", "err", err, "subject", subject)
		}),
	}
}
