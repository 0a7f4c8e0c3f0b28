package chaos

import (
	"strings"
	"testing"
	"time"
)

// Options that cannot be run are refused, with the flag to change.
func TestCheckOptions(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Options)
		says string
	}{
		"as by default":       {func(*Options) {}, ""},
		"no time":             {func(o *Options) { o.Duration = 0 }, "--duration"},
		"fewer than no calls": {func(o *Options) { o.Calls = -1 }, "--calls"},
		"steady, older":       {func(o *Options) { o.Steady, o.OldBinary = 1, "x" }, "--steady"},
		"strict, older":       {func(o *Options) { o.Strict, o.OldBinary = true, "x" }, "--strict"},
		"three partitions":    {func(o *Options) { o.Partitions = 3 }, "--partitions"},
		"two servers":         {func(o *Options) { o.Servers = 2 }, "--servers"},
		"a fault of one":      {func(o *Options) { o.Fault = Pieces()[0] }, "--servers 3"},
		"no such fault":       {func(o *Options) { o.Servers, o.Fault = 3, "flood" }, Pieces()[0]},
		"a fault of three":    {func(o *Options) { o.Servers, o.Fault = 3, Pieces()[0] }, ""},
	} {
		o := Options{Duration: time.Second, Rate: 1, Servers: 1}
		c.edit(&o)
		err := o.Check()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o, err := Options{Dir: t.TempDir(), Seed: 3}.withDefaults()
	if err != nil || o.Check() != nil || o.Partitions != 2 {
		t.Errorf("defaults: %+v, %v", o, err)
	}
}
