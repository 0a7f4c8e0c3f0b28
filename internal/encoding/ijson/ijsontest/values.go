// Package ijsontest generates values of structs, for tests that compare an encoder with the JSON library. It sets every
// member of a struct, also those that are added later.
package ijsontest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Values calls check with values of T: the zero value, values with a single member set, and random values. Random
// values may contain members that JSON cannot represent.
func Values[T any](random int, check func(*T)) {
	for member := -1; ; member++ {
		f := filler{rand.New(rand.NewPCG(1, 2)), 0, func(i int) bool { return i == member }}
		v := new(T)
		f.fill(reflect.ValueOf(v).Elem())
		check(v)
		if member >= f.asked {
			break
		}
	}
	for n := range random {
		r := rand.New(rand.NewPCG(3, uint64(n)))
		share := r.Float64() * r.Float64()
		f := filler{r, 0, func(int) bool { return r.Float64() < share }}
		v := new(T)
		f.fill(reflect.ValueOf(v).Elem())
		check(v)
	}
}

// filler numbers the members of a struct, and sets those for which set returns true.
type filler struct {
	*rand.Rand
	asked int
	set   func(member int) bool
}

func (f *filler) fill(v reflect.Value) {
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
		return
	}
	if f.asked++; f.set(f.asked - 1) {
		f.one(v)
	}
}

func (f *filler) one(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(f.time()))
		return
	case jsontext.Value:
		v.Set(reflect.ValueOf(f.value()))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), f.IntN(3), 3))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map: // one entry: several have no order
		v.Set(reflect.MakeMap(v.Type()))
		if f.IntN(3) > 0 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.one(key)
			f.one(value)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(pick(f, int64(1), -1, 1734378895123, math.MaxInt64, math.MinInt64))
	case reflect.Uint64:
		v.SetUint(pick(f, 1, 42, uint64(math.MaxUint64)))
	case reflect.Float64:
		v.SetFloat(pick(f, 0.5, -1e21, 1e-7))
	default:
		panic(fmt.Sprintf("no values of %s", v.Type()))
	}
}

func pick[T any](f *filler, of ...T) T { return of[f.IntN(len(of))] }

func (f *filler) text() string {
	if f.IntN(50) == 0 {
		return pick(f, "not \xff text", "\xed\xa0\x80", "\xc3")
	}
	return pick(f, "plain", `"quoted" \ / 'and' so`, "\x00\x01\x1f\b\f\n\r\t\x7f", "ünï 😀 \u2028\u2029\ufffd",
		"<a href=x>&amp;</a>", " ", "null")
}

func (f *filler) value() jsontext.Value {
	if f.IntN(20) == 0 {
		return jsontext.Value(pick(f, "", "{", `{"a":1,"a":2}`, "\"\xff\"", "1 2", "01", `"\ud800"`))
	}
	return jsontext.Value(pick(f, "null", "true", `{"b":1,"a":[]}`, " { \"a\" : [ 1 , 2.50, 1E3, -0 ] }\n",
		`"\/\u0041\u2028\n<"`, `{"":{"a":[{}]}}`))
}

func (f *filler) time() time.Time {
	at := time.Date(2026, 11, 20, 12, 0, 0, 120_000_000, time.UTC)
	return pick(f, at, at.Truncate(time.Second), at.Add(3), time.Unix(0, 0).UTC(), at.In(time.FixedZone("east", 3600)),
		at.In(time.FixedZone("odd", 25*3600)), at.In(time.FixedZone("", 0)), at.AddDate(9000, 0, 0), at.AddDate(-3000, 0, 0))
}

// Fill sets the members of v whose bits are set in set; the lowest bit belongs to the first member. Strings get text,
// integers number, and JSON values value. A list gets one such item. From the 65th member on, the bits are used again.
func Fill[T any](v *T, set uint64, text string, number int64, value []byte) {
	asked := 0
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch {
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
			return
		case v.Kind() == reflect.Pointer && set>>(asked%64)&1 == 1:
			v.Set(reflect.New(v.Type().Elem()))
			asked++
			fill(v.Elem())
			return
		}
		asked++
		if set>>((asked-1)%64)&1 == 0 {
			return
		}
		switch v.Kind() {
		case reflect.String:
			v.SetString(text)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(number)
		case reflect.Uint64:
			v.SetUint(uint64(number))
		case reflect.Float64:
			v.SetFloat(float64(number))
		case reflect.Slice:
			if v.Type() == reflect.TypeFor[jsontext.Value]() {
				v.SetBytes(value)
				return
			}
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0))
		}
	}
	fill(reflect.ValueOf(v).Elem())
}
