package observability

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"html/template"
	"image"
	"image/png"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
)

var drawn = flag.String("pictures", "",
	"draw the dashboards into this folder of the clone with Prometheus, Chromium and npm, which must be installed")

// drawnTime is the time over which the drawn dashboards show their queries.
const drawnTime = 3 * time.Minute

// Each dashboard is drawn by Chromium, from what Prometheus answers to its queries during some minutes of calls.
func TestPictures(t *testing.T) {
	w := start(t, program(t, *drawn != "", "prometheus"), "transcript_2eclean", "fs_2ewrite")
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: install it with `apt-get install chromium`", err)
	}
	plot := t.TempDir()
	folder, err := filepath.Abs(filepath.Join("../..", *drawn))
	if err != nil {
		t.Fatal(err)
	}
	processtest.Output(t, "npm", "install", "--silent", "--no-audit", "--prefix", plot, "uplot@1.6.32")
	tick, over := time.NewTicker(500*time.Millisecond), time.After(drawnTime)
	defer tick.Stop()
	for going := true; going; {
		w.calls()
		w.call("transcript.clean", `{"text":"Anna: So, um, the plan."}`)
		w.call("fs.write", `{"path":"../outside","content":"x"}`)
		select {
		case <-tick.C:
		case <-over:
			going = false
		}
	}
	for name := range dashboards() {
		page := filepath.Join(t.TempDir(), name+".html")
		height := w.page(page, filepath.Join(kept, "dashboards", name+".json"),
			"file://"+filepath.Join(plot, "node_modules/uplot/dist"))
		picture := filepath.Join(folder, name+".png")
		processtest.Output(t, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
			fmt.Sprint("--window-size=1200,", height), "--screenshot="+picture, "file://"+page)
		w.hasLines(picture)
	}
}

// panel is a panel of a dashboard with what Prometheus answers.
type panel struct {
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`
	At     place    `json:"at"`
	Number *float64 `json:"number"` // of a panel with one value
	Times  []int64  `json:"times"`
	Series []series `json:"series"`
}

// place is where a panel stands, in columns and rows of the dashboard.
type place struct{ X, Y, W, H int }

// MarshalJSON implements [json.Marshaler].
func (p place) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]int{"x": p.X, "y": p.Y, "w": p.W, "h": p.H})
}

type series struct {
	Name   string     `json:"name"`
	Values []*float64 `json:"values"` // nil where there is none
}

// page writes the page of a dashboard, and returns its height.
func (w *world) page(name, dashboard, plot string) (height int) {
	w.Helper()
	var d struct {
		Title  string
		Panels []struct {
			Type, Title string
			GridPos     place
			FieldConfig struct{ Defaults struct{ Unit string } }
			Targets     []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(read(w.T, dashboard), &d); err != nil {
		w.Fatal(err)
	}
	var panels []panel
	for _, from := range d.Panels {
		p := panel{Title: from.Title, Unit: from.FieldConfig.Defaults.Unit, At: from.GridPos}
		for _, target := range from.Targets {
			if from.Type == "stat" {
				p.Number = w.number(target.Expr)
				continue
			}
			w.series(&p, target.Expr, target.LegendFormat)
		}
		panels, height = append(panels, p), max(height, (p.At.Y+p.At.H)*38)
	}
	var html bytes.Buffer
	err := template.Must(template.ParseFiles("testdata/picture.html")).Execute(&html, map[string]any{
		"Title": d.Title, "Panels": panels, "Plot": template.URL(plot), "Height": height,
	})
	if err != nil {
		w.Fatal(err)
	}
	write(w.T, name, html.String())
	return height + 60
}

// number returns the value of a query; 0 if there is none.
func (w *world) number(expr string) *float64 {
	w.Helper()
	value := 0.0
	for _, text := range w.values(expr, "text.search") {
		value = w.float(text)
	}
	return &value
}

func (w *world) float(text string) float64 {
	w.Helper()
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		w.Fatal(err)
	}
	return value
}

var inLegend = regexp.MustCompile(`{{(\w+)}}`)

// series adds to a panel what a query had in each second of drawnTime.
func (w *world) series(p *panel, expr, legend string) {
	w.Helper()
	end := time.Now().Unix()
	begin := end - int64(drawnTime/time.Second)
	var got struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	asked := url.QueryEscape(chosen(expr, "text.search"))
	w.get(fmt.Sprintf("query_range?query=%s&start=%d&end=%d&step=1", asked, begin, end), &got)
	p.Times = nil
	for at := begin; at <= end; at++ {
		p.Times = append(p.Times, at)
	}
	for _, r := range got.Data.Result {
		s := series{Values: make([]*float64, len(p.Times))}
		s.Name = inLegend.ReplaceAllStringFunc(legend, func(label string) string { return r.Metric[label[2:len(label)-2]] })
		for _, v := range r.Values {
			if text := fmt.Sprint(v[1]); text != "NaN" {
				value := w.float(text)
				s.Values[int64(v[0].(float64))-begin] = &value
			}
		}
		p.Series = append(p.Series, s)
	}
	slices.SortFunc(p.Series, func(a, b series) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
}

// hasLines fails if a picture does not have the colours of lines: the page was not drawn.
func (w *world) hasLines(picture string) {
	w.Helper()
	img, err := png.Decode(bytes.NewReader(read(w.T, picture)))
	if err != nil {
		w.Fatalf("%s: %v", picture, err)
	}
	if n := coloured(img); n < 500 {
		w.Errorf("%s has %d pixels in the colour of a first line", picture, n)
	}
}

// coloured counts the pixels in the colour of the first line of each panel.
func coloured(img image.Image) (n int) {
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			if r, g, b, _ := img.At(x, y).RGBA(); r>>8 == 0x1f && g>>8 == 0x77 && b>>8 == 0xb4 {
				n++
			}
		}
	}
	return n
}
