#!/bin/sh
# Packs everything that tests/gpu/run.sh needs on a machine with a GPU but without Debian packages or a network:
# program, plug-in, libraries, Lua files, tests, recipes, a data set.  Run after `make all ctests`.
#
#     tests/gpu/bundle.sh                     then, on that machine:   tar xzf gpu.tgz && gpu/tests/gpu/run.sh
#
# Prints the sizes of build/gpu.tgz and of the files of this checkout, which some machines are sent as well, and fails
# if they are too large together.
set -eu
cd "$(dirname "$0")/../.."
most=60 # MiB
for file in build/seqrun build/seqrun_cuda.so build/gpu-bench build/gpu-conform; do
    [ -e "$file" ] || { echo "bundle: $file is missing; run make all ctests on a machine with nvcc" >&2; exit 1; }
done
[ -e runs/data/novels.sqr ] || build/seqrun recipes/prepare.lua
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
to=$work/gpu
mkdir -p "$to/bin/tests" "$to/lib" "$to/clib" "$to/runs/data" "$to/tests/data" "$to/recipes/bench"
for name in seqrun seqrun_cuda.so seqrun_simt.so gpu-bench gpu-conform simt-conform; do
    cp "build/$name" "$to/bin/"
done
cp build/tests/late.so build/tests/odd.so "$to/bin/tests/"
strip "$to"/bin/* "$to"/bin/tests/* 2>/dev/null || true # two thirds of the size
cp -r lua "$to/"
rm -r "$to/lua/bind"
cp recipes/*.lua recipes/*.yaml "$to/recipes/"
cp -r recipes/bench "$to/recipes/"
cp -r tests/gpu tests/spec tests/support "$to/tests/"
cp -r tests/data/model tests/data/optim "$to/tests/data/"
cp runs/data/novels.* "$to/runs/data/"

# Shared libraries, except the C library's own.
ldd build/seqrun | awk '$3 ~ /^\// && $1 !~ /^lib(c|m|dl|rt|pthread)\.so/ { print $3 }' | xargs -I{} cp -L {} "$to/lib/"

# Lua modules outside of the repository; C modules are found by the tests' copy of run.lua.
build/seqrun -e '(function()
  for _, entry in ipairs { { package.path, "lua" }, { package.cpath, "clib" } } do
    for folder in entry[1]:gmatch("([^;]+)/%?%.[a-z]+") do
      if folder:match("^/usr") then print(entry[2], folder) end
    end
  end
end)()' | while read -r kind folder; do
    [ ! -d "$folder" ] || cp -rL "$folder/." "$to/$kind/" 2>/dev/null || true
done
here='(debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or ".")'
{ echo "package.cpath = $here .. '/../clib/?.so;' .. package.cpath"; cat tests/run.lua; } >"$to/tests/run.lua"
tar -C "$work" -czf build/gpu.tgz gpu
{ stat -c %s build/gpu.tgz; git ls-files -zco --exclude-standard | xargs -0 stat -c %s 2>/dev/null || true; } |
    awk -v most="$most" 'NR == 1 { own = $1 } NR > 1 { tree += $1 } END {
        printf "bundle: build/gpu.tgz %.1f MiB, the checkout %.1f MiB", own / 2 ^ 20, tree / 2 ^ 20
        if (own + tree > most * 2 ^ 20) { printf ": more than %d MiB together; leave files out\n", most; exit 1 }
        print ""
    }'
