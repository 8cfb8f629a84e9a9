# Removes files until none of the set is left.
set $nfiles=1000000
set $dirwidth=100
set $filesize=4k
set $nthreads=1

define fileset name=files,path=/,entries=$nfiles,dirwidth=$dirwidth,size=$filesize,prealloc=100

define process name=maker,instances=1
{
  thread name=maker,instances=$nthreads
  {
    flowop deletefile name=remove,filesetname=files
  }
}

run 86400
