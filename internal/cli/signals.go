package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/telemetry/monitor"
	"github.com/seed-018f16cc/toolbus/internal/telemetry/otlp"
)

// SignalFlags are the flags for traces, metrics and health. The zero value has none of them.
type SignalFlags struct {
	Listen string // host and port of the endpoints; set it before [Node.Flags] for another default
	otlp   string // URL of a collector
	token  string // file
	pprof  bool   // serve profiles
}

func (f *SignalFlags) flags(to *pflag.FlagSet) {
	to.StringVar(&f.otlp, "otlp-endpoint", "",
		"`URL` of a collector to send traces to over OTLP/HTTP, for example http://127.0.0.1:4318/v1/traces "+
			"(default: send no traces)")
	to.StringVar(&f.Listen, "http-listen", f.Listen,
		"`HOST:PORT` to serve /healthz, /readyz and /metrics at; port 0 picks a free one")
	to.StringVar(&f.token, "http-token-file", "",
		"`FILE` with a token of 16 bytes or more that readers of /metrics must send; required away from loopback, and read "+
			"again for each of them")
	to.BoolVar(&f.pprof, "pprof", false,
		"serve profiles of the process at /debug/pprof, to those who may read /metrics")
}

// check returns an [ErrUsage] if the flags are invalid.
func (f *SignalFlags) check() error {
	if f.otlp != "" && !httpURL(f.otlp) {
		return Usagef("--otlp-endpoint %q: use an http or https URL, such as http://127.0.0.1:4318/v1/traces", f.otlp)
	}
	if f.Listen == "" {
		if f.token != "" || f.pprof {
			return Usagef("--http-token-file and --pprof need --http-listen")
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(f.Listen); err != nil {
		return Usagef("--http-listen %q: use HOST:PORT, such as 127.0.0.1:9464", f.Listen)
	}
	return nil
}

func httpURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// Signals are the traces, the metrics and the health of a process.
type Signals struct {
	tracer  *otlp.Exporter  // nil without traces
	monitor *monitor.Server // nil without endpoints
	log     *slog.Logger
}

// open returns the signals of a service, and makes o use them. Call End when the process ends.
func (f *SignalFlags) open(ctx context.Context, service string, o *toolbus.Options) (*Signals, error) {
	s := &Signals{log: o.Logger}
	if f.otlp != "" {
		tracer, err := otlp.Open(ctx, service, f.otlp, s.notSent)
		if err != nil {
			return nil, err
		}
		s.tracer, o.TracerProvider = &tracer, tracer
	}
	if f.Listen == "" {
		return s, nil
	}
	var err error
	s.monitor, err = monitor.Open(monitor.Options{
		Listen: f.Listen, TokenFile: f.token, Profiles: f.pprof, Service: service, Logger: o.Logger,
	})
	if err != nil {
		s.End(ctx)
		return nil, err
	}
	o.MeterProvider = s.monitor.Provider()
	s.await("start", "the process has not started to serve")
	o.Logger.Info("health and metrics are served", "at", s.monitor.URL())
	return s, nil
}

func (s *Signals) notSent(err error) { s.log.Warn("traces not sent", "err", err) }

func (s *Signals) await(name, missing string) {
	if s.monitor != nil {
		s.monitor.Await(name, func() string { return missing })
	}
}

// Serving makes the process ready. It warns if nobody can see how the process does.
func (s *Signals) Serving() {
	if s.monitor == nil {
		s.log.Warn("no metrics leave this process: --http-listen HOST:PORT serves them")
	}
	s.await("start", "")
}

// URL returns the address of the endpoints, or "" without any.
func (s *Signals) URL() string {
	if s.monitor == nil {
		return ""
	}
	return s.monitor.URL()
}

// While makes the process ready only while connected reports true.
func (s *Signals) While(connected func() bool) {
	if s.monitor == nil {
		return
	}
	s.monitor.Await("bus", func() string {
		if connected() {
			return ""
		}
		return "the connection to the bus"
	})
}

// End sends the remaining traces, and ends the endpoints.
func (s *Signals) End(ctx context.Context) {
	var failed error
	if s.monitor != nil {
		failed = s.monitor.Close(context.WithoutCancel(ctx))
	}
	if s.tracer != nil {
		failed = errors.Join(failed, s.tracer.Close(ctx))
	}
	if failed != nil {
		s.notSent(failed)
	}
}
