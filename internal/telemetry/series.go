package telemetry

import (
	"cmp"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/metric"
)

// Limits of the series of one process. Tools, the codes of one tool, and tenants that come later are counted as
// [other].
const (
	maxTools   = 10_000 // pairs of tool and version
	maxCodes   = 100    // of one pair
	maxTenants = 200
	maxMetrics = 10_000 // that tools report, of all pairs
)

// other stands for what has no series of its own.
const other = "other"

// attributes are those of a label, as the instruments take them.
type attributes struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// series keeps the attributes of each label, because making them costs more than counting. Its memory is bounded by the
// limits. log is optional, and is warned once. The methods are safe for concurrent use.
type series struct {
	log   *slog.Logger
	mu    sync.RWMutex
	known map[label]attributes
	codes map[label]int // of each pair of tool and version
	told  bool

	tenants map[string]bool // that are named
	crowded bool            // log was warned of more of them
	metrics int             // that tools report
}

// of returns the attributes of a label, with [other] in place of what is beyond the limits.
func (s *series) of(l label) attributes {
	s.mu.RLock()
	of, ok := s.known[l]
	s.mu.RUnlock()
	if ok {
		return of
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.bounded(l)
	if of, ok = s.known[l]; !ok {
		set := metric.WithAttributeSet(l.set())
		of = attributes{[]metric.AddOption{set}, []metric.RecordOption{set}}
		s.known[l] = of
	}
	return of
}

// bounded returns l within the limits. The caller holds s.mu.
func (s *series) bounded(l label) label {
	if s.known == nil {
		s.known, s.codes = map[label]attributes{}, map[label]int{}
	}
	if l.tenant != "" {
		l.tenant = s.named(l.tenant)
	}
	if l.tool == "" {
		return l
	}
	pair := label{tool: l.tool, version: l.version}
	if _, ok := s.codes[pair]; !ok {
		if len(s.codes) >= maxTools {
			s.warn("metrics name no more tools: further ones are counted as \"other\"", l)
			l.tool, l.version, l.action = other, other, ""
			pair = label{tool: other, version: other}
		}
		s.codes[pair] += 0
	}
	if _, ok := s.known[l]; ok {
		return l
	}
	if l.metric != "" {
		return s.reported(l)
	}
	if l.code == "" {
		return l
	}
	if s.codes[pair] >= maxCodes {
		s.warn("metrics name no more error codes of this tool: further ones are counted as \"other\"", l)
		l.code = other
		return l
	}
	s.codes[pair]++
	return l
}

// tenant returns the name of a tenant, or [other] beyond the limit or without a name.
func (s *series) tenant(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named(name)
}

// named is tenant. The caller holds s.mu.
func (s *series) named(tenant string) string {
	switch {
	case tenant == "" || s.tenants[tenant]:
		return cmp.Or(tenant, other)
	case len(s.tenants) < maxTenants:
		if s.tenants == nil {
			s.tenants = map[string]bool{}
		}
		s.tenants[tenant] = true
		return tenant
	case !s.crowded && s.log != nil:
		s.crowded = true
		s.log.Warn("metrics name no more tenants: further ones are counted as \"other\"", "tenant", tenant)
	}
	return other
}

// reported returns l, the label of a metric that a tool reports, within the limit. The caller holds s.mu.
func (s *series) reported(l label) label {
	if s.metrics >= maxMetrics {
		s.warn("metrics name no more metrics of tools: further ones are counted as \"other\"", l)
		l.metric = other
		return l
	}
	s.metrics++
	return l
}

func (s *series) warn(says string, l label) {
	if s.told || s.log == nil {
		return
	}
	s.told = true
	s.log.Warn(says, "tool", l.tool, "version", l.version)
}
