package jsonschema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// members returns n texts as the members of an object or the items of a list, without its brackets.
func members(n int, of func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = of(i)
	}
	return strings.Join(all, ",")
}

// listOf returns a list of n texts.
func listOf(n int, of func(i int) string) string { return "[" + members(n, of) + "]" }

// same returns a list of n times the same text.
func same(n int, text string) string { return listOf(n, func(int) string { return text }) }

// filled returns a function that fills a number into a format.
func filled(format string) func(i int) string {
	return func(i int) string { return fmt.Sprintf(format, i) }
}

// costly is a schema with a value whose check took gigabytes, or many seconds.
type costly struct {
	name, schema, value string
	rule                string // of the first violation; "" if the value is valid
	steps               int    // bounds of the check; 0 for the steps that every check may take, and one look more
	bytes               uint64 // 0 if regular expressions take most, which they keep in a pool
}

func costlyOnes() []costly {
	const branch = `{"required":["k%d"],"properties":{"k%[1]d":{"type":"integer"}}}`
	numbers := listOf(20_000, func(i int) string { return fmt.Sprint(i % 300) })
	ones := same(90_000, "1")
	object := "{" + members(2_000, filled(`"m%d":%[1]d`)) + "}"
	items := func(of string) string { return `{"items":` + of + `}` }
	enum := func(n int, format string) string { return items(`{"enum":` + listOf(n, filled(format)) + `}`) }
	of := func(keyword string, n int, format string) string {
		return `{"` + keyword + `":` + listOf(n, filled(format)) + `}`
	}
	return []costly{
		{"alternatives", items(of("anyOf", 20, branch)), listOf(12_000, filled(`{"a":"text %d"}`)), "anyOf", 3_000, 200_000},
		{"branches", of("anyOf", 800, `{"items":`+branch+`,"type":"object"}`), ones, "anyOf", 23_000, 200_000},
		{"branches of items", of("anyOf", 800, items(`{"type":"string","minLength":%d}`)), ones, "anyOf", 8_000, 200_000},
		{"branches that only the last item does not fit", of("anyOf", 800, items(`{"type":"integer","title":"%d"}`)),
			ones[:len(ones)-1] + `,"x"]`, "steps", 0, 200_000},
		{"numbers of an enum", enum(300, "%d"), numbers, "", 61_000, 200_000},
		{"numbers of a large enum", enum(16_000, "%d"), listOf(9_000, filled("%d")), "", 28_000, 200_000},
		{"numbers of no enum", enum(16_000, "%d.5"), listOf(9_000, filled("%d")), "enum", 3_000, 200_000},
		{"texts of a large enum", enum(16_000, `"%d"`), listOf(9_000, filled(`"%d"`)), "", 28_000, 200_000},
		{"objects of a large enum", enum(4_000, `{"a":[%d]}`), listOf(3_000, filled(`{"a":[%d.0]}`)), "", 28_000, 433_000},
		{"numbers of a const", items(`{"const":7}`), same(20_000, "7"), "", 61_000, 200_000},
		{"numbers of many consts", items(of("anyOf", 300, `{"const":%d}`)), numbers, "steps", 0, 200_000},
		{"numbers contained", of("allOf", 300, `{"contains":{"const":%d}}`), numbers, "", 136_000, 200_000},
		{"numbers not contained", of("allOf", 300, `{"contains":{"const":%d.5}}`), numbers, "contains", 63_000, 200_000},
		{"different items", `{"uniqueItems":true}`, listOf(20_000, filled("%d")), "", 31_000, 887_000},
		{"multiples", items(`{"multipleOf":0.01}`), listOf(20_000, filled("%d.25")), "", 271_000, 7_442_000},
		{"patterns of names", `{"patternProperties":{` + members(300, filled(`"^x.*%d$":{}`)) + `}}`, object,
			"steps", 0, 0},
		{"patterns of a text", of("allOf", 800, `{"pattern":"a*b","title":"%d"}`),
			`"` + strings.Repeat("ab", 100_000) + `"`, "steps", 0, 0},
		{"unevaluated members", `{"unevaluatedProperties":false,"allOf":` +
			listOf(300, filled(`{"patternProperties":{"m%d":true}}`)) + `}`, object, "steps", 0, 0},
	}
}

// TestCostlySchemas bounds the work and the memory for values that took gigabytes, or many seconds.
func TestCostlySchemas(t *testing.T) {
	for _, c := range costlyOnes() {
		t.Run(c.name, func(t *testing.T) {
			s := compile(t, c.schema)
			root, err := s.plan()
			if err != nil {
				t.Fatal(err)
			}
			doc, err := decodeAny(jsontext.Value(c.value))
			if err != nil {
				t.Fatal(err)
			}
			check := newChecker(nil, len(c.value))
			all := check.left
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found, err := check.judge(root, doc)
			runtime.ReadMemStats(&after)
			rule := ""
			if len(found) > 0 {
				rule = found[0].Rule
			}
			if rule != c.rule || err != nil || len(found) > ijson.MaxViolations+1 {
				t.Errorf("%d violations, the first of rule %q, %v; want %q", len(found), rule, err, c.rule)
			}
			steps, bytes := all-check.left, after.TotalAlloc-before.TotalAlloc
			t.Logf("%d steps, %d bytes, of %d", steps, bytes, all)
			if steps > cmp.Or(c.steps, all+stepsPerLook) || c.bytes > 0 && bytes > c.bytes {
				t.Errorf("took %d steps and %d bytes, want at most %d and %d", steps, bytes, c.steps, c.bytes)
			}
		})
	}
}

// TestValidateEnds ends a check with its context, before it has used its steps.
func TestValidateEnds(t *testing.T) {
	s := compile(t, `{"items":{"enum":[1]}}`)
	long := jsontext.Value(same(20_000, "1"))
	ctx, cancel := context.WithCancel(t.Context())
	if found, err := s.ValidateFully(ctx, long); found != nil || err != nil {
		t.Errorf("before the end: %v, %v", found, err)
	}
	cancel()
	if found, err := s.ValidateFully(ctx, long); found != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v, %v", found, err)
	}
	root, err := s.plan()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := decodeAny(long)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	c := newChecker(func() error {
		if asked++; asked > 2 {
			return context.Canceled
		}
		return nil
	}, len(long))
	all := c.left
	if found, err := c.judge(root, doc); found != nil || !errors.Is(err, context.Canceled) || all-c.left > 4*stepsPerLook {
		t.Errorf("%v, %v after %d steps", found, err, all-c.left)
	}
	if _, err := compile(t, `{"items":{"format":"uri"}}`).Formatted(ctx, long); !errors.Is(err, context.Canceled) {
		t.Errorf("formats after the end: %v", err)
	}
}

// TestValidateTakesOneCopy compiles a schema once for all checks at a time.
func TestValidateTakesOneCopy(t *testing.T) {
	raw := `{"$ref":"#/$defs/a","$defs":{"a":{"properties":{` +
		members(200, filled(`"p%d":{"type":"integer","minimum":%[1]d}`)) + `}}}}`
	schemas := make([]*Schema, 50)
	for i := range schemas {
		schemas[i] = compile(t, raw)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			<-start
			for _, s := range schemas {
				if found := s.Validate(jsontext.Value(`{"p0":0}`)); found != nil {
					t.Error(found)
				}
			}
		})
	}
	close(start)
	wg.Wait()
	each := (heap() - before) / uint64(len(schemas))
	runtime.KeepAlive(schemas)
	t.Logf("%d bytes for a schema of %d", each, len(raw))
	if most := uint64(450_000); each > most {
		t.Errorf("a schema of %d bytes takes %d after it was used, want at most %d", len(raw), each, most)
	}
}
