package bench

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/subjects"
)

func TestZZDump(t *testing.T) {
	if os.Getenv("DUMP") == "" {
		t.Skip()
	}
	ctx := context.Background()
	o := Options{Dir: t.TempDir()}.withDefaults()
	h, _ := o.startHost(ctx, "x", Embedded, Default)
	defer h.close()
	r, _ := o.registry(1)
	p, err := startProduct(ctx, h, o, r)
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	time.Sleep(200 * time.Millisecond)
	for _, s := range []string{subjects.CallsStream, subjects.AuditStream} {
		st, _ := p.js.Stream(ctx, s)
		for seq := uint64(1); seq <= 2; seq++ {
			m, err := st.GetMsg(ctx, seq)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for k, v := range m.Header {
				fmt.Printf("  %s(%d): %s\n", k, len(v[0]), v[0])
				n += len(k) + len(v[0]) + 4
			}
			fmt.Printf("%s (%d)\n header %d body %d %s\n\n", m.Subject, len(m.Subject), n, len(m.Data), m.Data)
		}
	}
}
