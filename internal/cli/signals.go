package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/telemetry/monitor"
	"github.com/seed-018f16cc/toolbus/internal/telemetry/otlp"
)

// SignalFlags are the flags for traces, metrics, logs and health. The zero value has an event of each outcome, and none
// of the others.
type SignalFlags struct {
	Level  slog.Level // events from this level on are logged; with --verbose all are
	Listen string     // host and port of the endpoints; set it before [Node.Flags] for another default
	sample float64    // share of successful calls that are logged
	otlp   string     // URL of a collector
	ratio  float64    // share of the traces that it gets
	token  string     // file
	pprof  bool       // serve profiles
}

// flags adds all of them.
func (f *SignalFlags) flags(to *pflag.FlagSet) {
	f.Flags(to)
	to.Float64Var(&f.sample, "log-sample", 1,
		"share of successful calls to log, above 0 and at most 1, chosen by their references; errors are always logged")
}

// Flags adds those of a process that decides no outcomes.
func (f *SignalFlags) Flags(to *pflag.FlagSet) {
	f.sample = 1
	to.StringVar(&f.otlp, "otlp-endpoint", "",
		"`URL` of a collector to send traces to over OTLP/HTTP, for example http://127.0.0.1:4318/v1/traces. Metrics go to "+
			"/v1/metrics beside it (default: send neither)")
	to.Float64Var(&f.ratio, "trace-ratio", 1,
		"share of the traces to send, above 0 and at most 1, chosen by their ids: give all processes the same")
	to.StringVar(&f.Listen, "http-listen", f.Listen,
		"`HOST:PORT` to serve /healthz, /readyz and /metrics at; port 0 picks a free one")
	to.StringVar(&f.token, "http-token-file", "",
		"`FILE` with a token of 16 bytes or more that readers of /metrics must send; required away from loopback, and read "+
			"again for each of them")
	to.BoolVar(&f.pprof, "pprof", false,
		"serve profiles of the process at /debug/pprof, to those who may read /metrics")
}

// Check returns an [ErrUsage] if the flags are invalid.
func (f *SignalFlags) Check() error {
	if f.otlp != "" && !httpURL(f.otlp) {
		return Usagef("--otlp-endpoint %q: use an http or https URL, such as http://127.0.0.1:4318/v1/traces", f.otlp)
	}
	if !(f.ratio > 0 && f.ratio <= 1) {
		return Usagef("--trace-ratio is %v: use a number above 0, and at most 1", f.ratio)
	}
	if !(f.sample > 0 && f.sample <= 1) {
		return Usagef("--log-sample is %v: use a number above 0, and at most 1", f.sample)
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
	monitor *monitor.Server               // nil without endpoints
	metered bool                          // metrics leave the process
	ends    []func(context.Context) error // sends what remains
	log     *slog.Logger
	spans   atomic.Int64 // that the collector did not take
}

// Open returns the signals of a service whose log env takes, and makes o use them. Call End when the process ends.
func (f *SignalFlags) Open(ctx context.Context, service string, env Env, o *toolbus.Options) (*Signals, error) {
	s := &Signals{log: o.Logger}
	o.LogSample = f.sample
	readers, err := s.openReaders(ctx, f, service, o)
	if err == nil && len(readers) > 0 {
		// Package telemetry bounds the series before the SDK is asked.
		all := []sdkmetric.Option{sdkmetric.WithCardinalityLimit(0), sdkmetric.WithResource(otlp.Service(service)),
			otlp.Histograms()}
		for _, r := range readers {
			all = append(all, sdkmetric.WithReader(r))
		}
		meters := sdkmetric.NewMeterProvider(all...)
		s.metered, s.ends, o.MeterProvider = true, append(s.ends, meters.Shutdown), meters
		err = s.countLost(meters, env)
	}
	if err != nil {
		s.End(ctx)
		return nil, err
	}
	return s, nil
}

// countLost counts the spans and the lines that nobody takes.
func (s *Signals) countLost(meters metric.MeterProvider, env Env) error {
	of := func(signal string) metric.ObserveOption {
		return metric.WithAttributes(attribute.String("signal", signal))
	}
	spans, lines := of("span"), of("line")
	_, err := meters.Meter("github.com/seed-018f16cc/toolbus").Int64ObservableCounter("toolbus.signal.loss.count",
		metric.WithDescription("Spans that the collector did not take, and log lines that nobody read"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(s.spans.Load(), spans)
			o.Observe(env.lostLines(), lines)
			return nil
		}))
	return err
}

// openReaders opens the endpoints and the connection to a collector, and returns what reads the metrics for them.
func (s *Signals) openReaders(
	ctx context.Context, f *SignalFlags, service string, o *toolbus.Options,
) (readers []sdkmetric.Reader, err error) {
	if f.otlp != "" {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(s.notSent)) // of the whole process
		tracer, err := otlp.Traces(ctx, service, f.otlp, f.ratio, &s.spans)
		if err != nil {
			return nil, err
		}
		s.ends, o.TracerProvider = append(s.ends, tracer.Shutdown), tracer
		reader, err := otlp.Metrics(ctx, f.otlp)
		if err != nil {
			return nil, err
		}
		if reader != nil {
			readers = append(readers, reader)
		}
	}
	if f.Listen == "" {
		return readers, nil
	}
	s.monitor, err = monitor.Open(monitor.Options{
		Listen: f.Listen, TokenFile: f.token, Profiles: f.pprof, Logger: o.Logger,
	})
	if errors.Is(err, monitor.ErrToken) {
		return nil, Usagef("--http-listen %s: %v", f.Listen, err)
	}
	if err != nil {
		return nil, err
	}
	s.await("start", "the process has not started to serve")
	o.Logger.Info("health and metrics are served", "at", s.monitor.URL())
	return append(readers, s.monitor.Reader()), nil
}

func (s *Signals) notSent(err error) { s.log.Warn("traces or metrics not sent", "err", err) }

func (s *Signals) await(name, missing string) {
	if s.monitor != nil {
		s.monitor.Await(name, func() string { return missing })
	}
}

// Serving makes the process ready. It warns if nobody can see how the process does.
func (s *Signals) Serving() {
	if !s.metered {
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

// run runs part. If that is a dispatcher, the process is ready only while it admits calls.
func (s *Signals) run(ctx context.Context, part runner) error {
	if d, ok := part.(*toolbus.Dispatcher); ok && s.monitor != nil {
		s.monitor.Await("admission", d.Missing)
	}
	return part.Run(ctx)
}

// endTime is how long a process that ends sends what remains.
const endTime = 3 * time.Second

// End ends the endpoints, and sends the remaining traces and metrics, for at most endTime.
func (s *Signals) End(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	var all sync.WaitGroup
	if s.monitor != nil {
		all.Go(func() { s.monitor.Close(ctx) })
	}
	for _, end := range s.ends {
		all.Go(func() {
			if err := end(ctx); err != nil {
				s.notSent(err)
			}
		})
	}
	all.Wait()
	if n := s.spans.Load(); n > 0 {
		s.log.Warn("spans were lost: the collector did not take them", "spans", n)
	}
}
