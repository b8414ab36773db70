#!/bin/sh
# Collects everything that tests/gpu/run.sh needs on a machine with a GPU but without Debian packages or a
# network: program, plug-ins, libraries, Lua files, tests, recipes, a data set.  Run after `make all ctests`.
#
#     tests/gpu/bundle.sh [DIR=build/gpu]      then, on that machine:   DIR/tests/gpu/run.sh
set -eu
cd "$(dirname "$0")/../.."
to=${1:-build/gpu}
for file in build/seqrun build/seqrun_cuda.so build/gpu-bench build/gpu-conform; do
    [ -e "$file" ] || { echo "bundle: $file is missing; run make all ctests on a machine with nvcc" >&2; exit 1; }
done
[ -e runs/data/novels.sqr ] || build/seqrun recipes/prepare.lua
rm -rf "$to"
mkdir -p "$to/bin/tests" "$to/lib" "$to/clib" "$to/runs/data"
cp build/seqrun build/gpu-bench build/gpu-conform build/simt-conform build/seqrun_*.so "$to/bin/"
cp build/tests/*.so "$to/bin/tests/"
strip -g "$to"/bin/* 2>/dev/null || true # two thirds of the size
cp -r lua tests recipes "$to/"
rm -r "$to/lua/bind"
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
du -sh "$to" | cut -f1
