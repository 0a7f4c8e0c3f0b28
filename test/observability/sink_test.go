package observability

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"
)

// exported has what the tests read of OTLP as JSON.
type exported struct {
	ResourceMetrics []struct {
		ScopeMetrics []struct{ Metrics []metric }
	}
	ResourceSpans []struct {
		Resource   struct{ Attributes attributes }
		ScopeSpans []struct{ Spans []span }
	}
}

type metric struct {
	Name                                        string
	Sum, Gauge, Histogram, ExponentialHistogram points
}

type points struct {
	DataPoints  []struct{ Attributes attributes }
	IsMonotonic bool
}

type span struct {
	Name, TraceID, SpanID, ParentSpanID string
	Attributes                          attributes

	service string
}

type attributes []struct {
	Key   string
	Value struct{ StringValue string }
}

// keys returns the names of attributes, sorted.
func (a attributes) keys() (all []string) {
	for _, one := range a {
		all = append(all, one.Key)
	}
	return slices.Sorted(slices.Values(all))
}

// shape is the kind of a metric with the attributes of one of its series.
type shape struct {
	kind       string
	attributes []string
}

// shapes returns those of the series of a metric.
func (m metric) shapes() (all []shape) {
	sum := "gauge"
	if m.Sum.IsMonotonic {
		sum = "counter"
	}
	for _, of := range []struct {
		kind string
		points
	}{{sum, m.Sum}, {"gauge", m.Gauge}, {"histogram", m.Histogram}, {"exponential", m.ExponentialHistogram}} {
		for _, p := range of.DataPoints {
			all = append(all, shape{of.kind, p.Attributes.keys()})
		}
	}
	return all
}

// sink takes what a Collector sends.
type sink struct {
	mu      sync.Mutex
	metrics map[string][]shape
	spans   []span
}

// ServeHTTP implements http.Handler.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var e exported
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range e.ResourceMetrics {
		for _, scope := range of.ScopeMetrics {
			for _, m := range scope.Metrics {
				s.metrics[m.Name] = append(s.metrics[m.Name], m.shapes()...)
			}
		}
	}
	for _, of := range e.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, one := range scope.Spans {
				for _, a := range of.Resource.Attributes {
					one.service = a.Value.StringValue // there is only service.name
				}
				s.spans = append(s.spans, one)
			}
		}
	}
}

var (
	documented = regexp.MustCompile("(?m)^\\| `([a-z.]+)` \\| `[a-z_]+` \\| ([a-z]+)[^|]*\\| ([^|]*) \\|")
	code       = regexp.MustCompile("`([a-z_]+)`")
)

// checkMetrics compares the metrics with the tables of docs/metrics.md.
func (s *sink) checkMetrics(t *testing.T) {
	t.Helper()
	want := map[string]shape{}
	for _, m := range documented.FindAllStringSubmatch(string(read(t, "../../docs/metrics.md")), -1) {
		var of []string
		for _, a := range code.FindAllStringSubmatch(m[3], -1) {
			of = append(of, a[1])
		}
		want[m[1]] = shape{m[2], of}
		if m[2] == "histogram" {
			want[m[1]+".exp"] = shape{"exponential", of}
		}
	}
	for name, shapes := range s.metrics {
		for _, got := range shapes {
			more := slices.DeleteFunc(slices.Clone(got.attributes), func(a string) bool {
				return slices.Contains(want[name].attributes, a)
			})
			if got.kind != want[name].kind || len(more) > 0 {
				t.Errorf("%s is %v, and docs/metrics.md says %v", name, got, want[name])
			}
		}
	}
	for name, of := range map[string][]string{
		"tool.invocation.count":        {"action", "status", "tool", "version"},
		"tool.invocation.duration":     {"action", "tool", "version"},
		"tool.invocation.duration.exp": {"action", "tool", "version"},
		"tool.error.count":             {"error_code", "tool", "version"},
		"tool.retry.count":             {"error_code", "tool", "version"},
	} {
		if !slices.ContainsFunc(s.metrics[name], func(got shape) bool { return slices.Equal(got.attributes, of) }) {
			t.Errorf("%s has the attributes %v, not %v", name, s.metrics[name], of)
		}
	}
}

// checkSpans looks for the spans of a call with two attempts.
func (s *sink) checkSpans(t *testing.T) {
	t.Helper()
	admitted, runs := map[string]bool{}, 0
	for _, one := range s.spans {
		if one.Name == "admit flaky" && one.service == "toolbus-dispatcher" {
			admitted[one.SpanID] = true
		}
	}
	for _, one := range s.spans {
		if one.TraceID != s.spans[0].TraceID {
			t.Errorf("%q has another trace than %q", one.Name, s.spans[0].Name)
		}
		if one.Name != "execute_tool flaky" || one.service != "toolbus-executor" {
			continue
		}
		runs++
		if !admitted[one.ParentSpanID] {
			t.Errorf("no admission is the parent of %+v", one)
		}
		for _, key := range []string{"determinism", "timeout_ms", "idempotency_key_prefix", "tool.version", "call.status"} {
			if !slices.Contains(one.Attributes.keys(), key) {
				t.Errorf("%s has no %s, but %q", one.Name, key, one.Attributes.keys())
			}
		}
	}
	if len(admitted) != 2 || runs != 2 {
		t.Errorf("%d admissions and %d runs of two attempts: %+v", len(admitted), runs, s.spans)
	}
}
