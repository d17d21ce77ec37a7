package roles_test

import (
	"slices"
	"testing"

	"github.com/weft-fabric/weft/internal/roles"
)

// Who keeps removes inputs that nothing mentions, and nobody else does.
func TestKeepersAloneRemoveInputs(t *testing.T) {
	t.Parallel()
	for way, want := range map[roles.Way][]roles.Role{
		roles.Work: {roles.Operator},
		roles.Keep: {roles.Runner, roles.Operator},
		roles.API:  {roles.Operator},
	} {
		c := roles.Config{Namespace: "weft", Stages: []string{"hash"}, Runners: way}
		if got := roles.Publishing(c, "$JS.API.STREAM.MSG.DELETE.OBJ_weft-input"); !slices.Equal(got, want) {
			t.Errorf("%s: %v may remove an input, want %v", way, got, want)
		}
		if got := roles.Publishing(c, "$JS.API.STREAM.PURGE.OBJ_weft-input"); !slices.Contains(got, roles.Backend) || slices.Contains(got, roles.Runner) != (way == roles.Keep) {
			t.Errorf("%s: %v may remove the chunks of an input", way, got) // a backend those of its own upload
		}
		for subject, want := range map[string][]roles.Role{
			"$O.weft-input.C.x":  {roles.Backend, roles.Operator},
			"$O.weft-output.C.x": {roles.Runner, roles.Operator},
		} {
			got := roles.Publishing(c, subject)
			if way == roles.API {
				want = slices.DeleteFunc(slices.Clone(want), func(r roles.Role) bool { return r == roles.Runner })
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v may write to %s, want %v", way, got, subject, want)
			}
		}
	}
}
