package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/subjects"
)

func TestZZSettle(t *testing.T) {
	if os.Getenv("SETTLE") == "" {
		t.Skip()
	}
	ctx := context.Background()
	for range 60 {
		func() {
			o := Options{Dir: t.TempDir()}.withDefaults()
			h, err := o.startHost(ctx, "x", Embedded, Default)
			if err != nil {
				t.Fatal(err)
			}
			defer h.close()
			r, _ := o.registry(1)
			p, err := startProduct(ctx, h, o, r)
			if err != nil {
				t.Fatal(err)
			}
			defer p.stop()
			in := input(256)
			l, err := closed(ctx, &numbers{}, 128, 1*time.Second, func(ctx context.Context, k uint64) error {
				return p.call(ctx, key(k), toolID(0), in)
			})
			fmt.Println(len(l.latencies), err, l.percentile(50), l.percentile(99))
			w, c := context.WithTimeout(ctx, 5*time.Second)
			err = p.settle(w)
			c()
			if err == nil {
				return
			}
			fmt.Println(err)
			kinds := map[string]int{}
			s, _ := p.js.Stream(ctx, subjects.CallsStream)
			last := s.CachedInfo().State.LastSeq
			seen := map[uint64]bool{}
			for seq := uint64(1); seq <= last; seq++ {
				m, err := s.GetMsg(ctx, seq)
				if err != nil {
					kinds[err.Error()]++
					continue
				}
				e, _ := subjects.ParseEvent(m.Subject)
				kinds[e.Kind]++
				if e.Kind != "q" && e.Kind != "o" {
					fmt.Println(seq, m.Subject, m.Header.Get("Tb-Event"), m.Time)
				}
			}
			a, _ := p.js.Stream(ctx, subjects.AuditStream)
			alast := a.CachedInfo().State.LastSeq
			for seq := uint64(1); seq <= alast; seq++ {
				m, err := a.GetMsg(ctx, seq)
				if err != nil {
					continue
				}
				var n uint64
				fmt.Sscan(m.Header.Get("Tb-Log-Seq"), &n)
				if seen[n] {
					fmt.Println("double", n)
				}
				seen[n] = true
			}
			miss := []string{}
			for seq := uint64(1); seq <= last; seq++ {
				if !seen[seq] {
					miss = append(miss, fmt.Sprint(seq))
				}
			}
			fmt.Println(kinds, "missing", len(miss), strings.Join(miss[:min(len(miss), 20)], " "), "of", last)
		}()
	}
}
