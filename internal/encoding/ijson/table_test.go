package ijson_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson/ijsontest"
)

type word string

// all has a member of each kind, and some that only the library can encode.
type all struct {
	Text    word              `json:"text"`
	Maybe   string            `json:"maybe,omitzero"`
	Texts   []string          `json:"texts"`
	Flag    bool              `json:"flag"`
	On      bool              `json:"on,omitzero"`
	Small   int64             `json:"small"`
	Count   int               `json:"count,omitzero"`
	Natural uint64            `json:"natural,omitzero"`
	Raw     jsontext.Value    `json:"raw"`
	At      time.Time         `json:"at"`
	Names   map[string]string `json:"names"`
	Inner   part              `json:"inner"`
	Pointer *part             `json:"pointer,omitzero"`
	Lasts   *time.Time        `json:"lasts,omitzero"`
	Float   float64           `json:"float,omitzero"`
	Parts   []part            `json:"parts,omitzero"`
	Local   string            `json:"-"`

	Extra map[string]jsontext.Value `json:",embed"`
}

type part struct {
	Name string `json:"name,omitzero"`
	More bool   `json:"more,omitzero"`
}

// A table writes and reads the same as the library, or returns false.
func TestTable(t *testing.T) {
	t.Parallel()
	table := ijson.TableOf[all]()
	served := 0
	ijsontest.Values(3000, func(v *all) {
		got, ok := table.Append([]byte("before"), v, nil)
		want, err := json.Marshal(v, json.Deterministic(true))
		if ok && (err != nil || string(got) != "before"+string(want)) {
			t.Fatalf("got  %s\nwant %s, %v", got, want, err)
		}
		var read, library all
		if err != nil || !table.Read(string(want), &read, nil) {
			return
		}
		served++
		if err := json.Unmarshal(want, &library); err != nil || !reflect.DeepEqual(read, library) {
			t.Fatalf("got  %+v\nwant %+v, %v\nof %s", read, library, err, want)
		}
	})
	if served < 50 {
		t.Errorf("the table served only %d", served)
	}
}

// A payload replaces the first JSON value.
func TestPayload(t *testing.T) {
	t.Parallel()
	type two struct {
		Name   string         `json:"name"`
		First  jsontext.Value `json:"first"`
		Second jsontext.Value `json:"second"`
	}
	table := ijson.TableOf[two]()
	payload := jsontext.Value(` {"as": "it stands"}`)
	text, ok := table.Append(nil, &two{First: jsontext.Value("1"), Second: jsontext.Value("[ 2 ]")}, payload)
	if want := `{"name":"","first": {"as": "it stands"},"second":[2]}`; !ok || string(text) != want {
		t.Errorf("got %s, %t", text, ok)
	}
	var v two
	if ok := table.Read(`{"name":"","first":null,"second":null}`, &v, payload); !ok ||
		!reflect.DeepEqual(v, two{First: payload, Second: jsontext.Value("null")}) {
		t.Errorf("got %+v, %t", v, ok)
	}
	if table.Read(`{"name":"","first":1,"second":null}`, &v, payload) {
		t.Error("a value was read in the place of the payload")
	}
}

type loud string

func (l loud) MarshalText() ([]byte, error) { return []byte(strings.ToUpper(string(l))), nil }

// A table leaves a number that overflows its field, and a type with encoding methods, to the library.
func TestOdd(t *testing.T) {
	t.Parallel()
	if ijson.TableOf[struct {
		N int8 `json:"n"`
	}]().Read(`{"n":128}`, new(struct {
		N int8 `json:"n"`
	}), nil) {
		t.Error("128 was read as int8")
	}
	type host struct {
		Loud loud `json:"loud"`
	}
	if text, ok := ijson.TableOf[host]().Append(nil, new(host), nil); ok {
		t.Errorf("a text that encodes itself was written: %s", text)
	}
	type lasts struct {
		Time time.Duration `json:"time"`
	}
	if text, ok := ijson.TableOf[lasts]().Append(nil, new(lasts), nil); ok {
		t.Errorf("a duration was written: %s", text)
	}
}
