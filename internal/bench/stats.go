package bench

import (
	"cmp"
	"slices"
	"time"
)

// Stats are medians over the rounds of one side. All values except Calls, latencies and throughput are per call.
type Stats struct {
	Calls     int     `json:"calls"` // total of all rounds
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_ms"`
	P95       float64 `json:"p95_ms"`
	P99       float64 `json:"p99_ms"`
	CPU       float64 `json:"cpu_us"` // of all: callers, dispatcher, executor, server
	ServerCPU float64 `json:"server_cpu_us"`
	OwnCPU    float64 `json:"own_cpu_us"` // of this process, including an embedded server
	Allocs    float64 `json:"allocs"`     // of this process, like all of the following except those of the server
	AllocKB   float64 `json:"alloc_kb"`
	// Wake-ups are voluntary context switches: a thread had no work, and must be woken later.
	ServerWakeUps float64 `json:"server_wake_ups"`
	OwnWakeUps    float64 `json:"own_wake_ups"`
	WriteCalls    float64 `json:"own_write_calls"` // system calls
	Writes        float64 `json:"durable_writes"`
	Messages      float64 `json:"messages"` // sent and received by caller, dispatcher and worker
	Caller        Traffic `json:"caller_messages"`
	Dispatcher    Traffic `json:"dispatcher_messages"`
	Worker        Traffic `json:"worker_messages"`
	WireKB        float64 `json:"wire_kb"` // sent and received by the three parties
	// Round trips are counted for calls in sequence. RoundTrips counts those that were answered while the caller waited,
	// including its own. AllRoundTrips counts all.
	RoundTrips    float64 `json:"round_trips"`
	AllRoundTrips float64 `json:"all_round_trips"`
}

// Traffic is the number of messages that a party sends and receives.
type Traffic struct {
	Sent     float64 `json:"sent"`
	Received float64 `json:"received"`
}

// Ratios are medians of the ratios of neighbouring rounds.
type Ratios struct {
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50"`
	P95       float64 `json:"p95"`
	P99       float64 `json:"p99"`
	CPU       float64 `json:"cpu"`
}

// round is the result of one round.
type round struct {
	load
	processUsage
}

// summarise computes the values of the row from the rounds of its sides.
func (row *Row) summarise(sides []*side) {
	by := map[string]*side{raw: {}, theFloor: {}, ours: {}}
	for _, s := range sides {
		by[s.name] = s
	}
	row.Raw, row.Floor, row.Toolbus = by[raw].stats(), by[theFloor].stats(), by[ours].stats()
	row.State = cmp.Or(by[ours].state, by[theFloor].state)
	row.Ratio, row.FloorRatio = ratios(by[ours].rounds, by[raw].rounds), ratios(by[ours].rounds, by[theFloor].rounds)
	if row.Ratio != nil {
		row.Checks = row.targets()
	}
}

// ratios compares the rounds of two sides. It returns nil if one of them was not measured.
func ratios(of, with []round) *Ratios {
	if len(of) == 0 || len(with) == 0 {
		return nil
	}
	ratio := func(value func(round) float64) float64 {
		var all []float64
		for i, r := range with {
			all = append(all, value(of[i])/value(r))
		}
		return median(all)
	}
	return &Ratios{
		PerSecond: ratio(round.perSecond), P50: ratio(atPercentile(50)), P95: ratio(atPercentile(95)),
		P99: ratio(atPercentile(99)),
		CPU: ratio(round.cpu),
	}
}

func atPercentile(p int) func(round) float64 { return func(r round) float64 { return r.percentile(p) } }

// cpu returns the CPU time of all processes per call, in microseconds.
func (r round) cpu() float64 { return r.per(r.self + r.server) }

func (r round) per(d time.Duration) float64 {
	return float64(d) / float64(time.Microsecond) / float64(len(r.latencies))
}

// stats returns the statistics of a side, or nil if it was not measured.
func (s *side) stats() *Stats {
	if len(s.rounds) == 0 {
		return nil
	}
	of, each := over(s.rounds)
	v := &Stats{
		PerSecond: of(round.perSecond), P50: of(atPercentile(50)), P95: of(atPercentile(95)), P99: of(atPercentile(99)),
		CPU: of(round.cpu), ServerCPU: of(func(r round) float64 { return r.per(r.server) }),
		OwnCPU:        of(func(r round) float64 { return r.per(r.self) }),
		Allocs:        each(func(u processUsage) uint64 { return u.mallocs }),
		AllocKB:       each(func(u processUsage) uint64 { return u.bytes }) / 1024,
		ServerWakeUps: each(func(u processUsage) uint64 { return u.serverWakeUps }),
		OwnWakeUps:    each(func(u processUsage) uint64 { return u.wakeUps }),
		WriteCalls:    each(func(u processUsage) uint64 { return u.writeCalls }),
		Writes:        each(func(u processUsage) uint64 { return u.writes }),
		WireKB:        each(func(u processUsage) uint64 { return u.wire }) / 1024,
		RoundTrips:    s.trips.before, AllRoundTrips: s.trips.all,
	}
	for i, party := range []*Traffic{&v.Caller, &v.Dispatcher, &v.Worker} {
		party.Sent = each(func(u processUsage) uint64 { return u.messages[i].sent })
		party.Received = each(func(u processUsage) uint64 { return u.messages[i].received })
		v.Messages += party.Sent + party.Received
	}
	for _, r := range s.rounds {
		v.Calls += len(r.latencies)
	}
	return v
}

// over returns two functions that compute medians over rounds: of computes that of a value, and each that of a usage
// per call.
func over(rounds []round) (of func(func(round) float64) float64, each func(func(processUsage) uint64) float64) {
	of = func(f func(round) float64) float64 {
		var all []float64
		for _, r := range rounds {
			all = append(all, f(r))
		}
		return median(all)
	}
	each = func(n func(processUsage) uint64) float64 {
		return of(func(r round) float64 { return float64(n(r.processUsage)) / float64(len(r.latencies)) })
	}
	return of, each
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}
